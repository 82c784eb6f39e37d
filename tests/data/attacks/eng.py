"""A misbehaving OpenAI-compatible server: python3 eng.py PORT MODE [GOOD]

Serves on 127.0.0.1; with PORT 0 on a free one, which it prints. The first GOOD completions are answered properly. `good` (or any unknown word) answers properly. The other modes:
models_huge models_deep models_infinite models_slow models_types models_ansi models_neg metrics_huge metrics_garbage metrics_nan infinite
noline line1g gzipbomb slowheader slowbody never wronglen neglen twolen lenchunk biglen badchunk hugechunk http10 http09 cont100
cont100flood headflood redirect badutf8 deepjson hugenum negusage maxusage usagefloat usagechange usagelie nofinish nodone afterdone
moretokens outoforder nochoices err200 err200sse fakeoom r429year r503 st999 st000 rst0 rst1 rst2 rst3 rst4 err1g tinyevents cr nul
onepacket pipelined ssh
"""
import asyncio,sys,gzip,json,random,os
PORT=int(sys.argv[1]); MODE=sys.argv[2]; GOOD=int((sys.argv+['0'])[3])
def ev(text='x',finish=None,usage=None,idx=0):
    d={"id":"c","object":"text_completion","choices":[{"index":idx,"text":text,"finish_reason":finish}]}
    if usage is not None: d["usage"]=usage
    return ('data: '+json.dumps(d)+'\n\n').encode()
def us(p,c): return {"prompt_tokens":p,"completion_tokens":c,"total_tokens":p+c}
async def rd(r):
    h=await r.readuntil(b'\r\n\r\n'); n=0
    for l in h.split(b'\r\n'):
        if l.lower().startswith(b'content-length:'): n=int(l.split(b':')[1])
    b=await r.readexactly(n) if n else b''
    return h.split(b' ')[1].decode(),b
def full(body,ct='application/json',st='200 OK',extra=''):
    return f'HTTP/1.1 {st}\r\nContent-Type: {ct}\r\nContent-Length: {len(body)}\r\n{extra}\r\n'.encode()+body
HEAD=b'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n'
def ch(b): return b'%x\r\n%s\r\n'%(len(b),b)
async def conn(r,w):
    try:
        while True:
            path,body=await rd(r)
            if path.startswith('/v1/models'):
                if MODE=='models_huge': 
                    w.write(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{"data":[{"id":"'); 
                    for _ in range(1500): w.write(b'A'*1000000); await w.drain()
                    w.close(); return
                if MODE=='models_deep': w.write(full(b'['*2000000)); await w.drain(); continue
                if MODE=='models_infinite':
                    w.write(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n')
                    while True: w.write(ch(b' '*100000)); await w.drain()
                if MODE=='models_slow':
                    for c in b'HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{} ': w.write(bytes([c])); await w.drain(); await asyncio.sleep(1)
                if MODE=='models_types': w.write(full(b'{"data":[{"id":{"a":[1]},"max_model_len":"99999999999999999999999"}]}')); continue
                if MODE=='models_ansi': w.write(full(json.dumps({"data":[{"id":"\x1b]0;PWN\x07\x1b[31m</script><script>alert(1)</script>","max_model_len":1e308}]}).encode())); continue
                if MODE=='models_neg': w.write(full(b'{"data":[{"id":"m","max_model_len":-5}]}')); continue
                w.write(full(b'{"data":[{"id":"m","max_model_len":4096}]}')); await w.drain(); continue
            if path.startswith('/health'):
                w.write(full(b'')); await w.drain(); continue
            if not path.startswith('/v1/comp'):
                if path.startswith('/metrics') and MODE=='metrics_huge':
                    w.write(b'HTTP/1.1 200 OK\r\n\r\n')
                    for i in range(1000): w.write(b'vllm:num_requests_running{a="x"} 1\n'*30000); await w.drain()
                    w.close(); return
                if path.startswith('/metrics') and MODE=='metrics_garbage':
                    w.write(full(os.urandom(200000))); continue
                if path.startswith('/metrics') and MODE=='metrics_nan':
                    w.write(full(b'vllm:num_requests_running NaN\nvllm:num_requests_waiting -Inf\nvllm:kv_cache_usage_perc 1e999\nvllm:num_preemptions_total -5\n')); continue
                w.write(full(b'{}',st='404 Not Found')); await w.drain(); continue
            q=json.loads(body); n=q.get('max_tokens',4); p=q.get('prompt'); np=len(p) if isinstance(p,list) else 5
            global GOOD
            M='good' if GOOD>0 else MODE
            GOOD-=1
            if M=='infinite':
                w.write(HEAD)
                while True: w.write(ch(ev())); await w.drain()
            if M=='noline':
                w.write(HEAD)
                while True: w.write(ch(b'data: '+b'x'*100000)); await w.drain()
            if M=='line1g':
                w.write(HEAD); w.write(ch(b'data: {"choices":[{"index":0,"text":"'))
                for _ in range(1000): w.write(ch(b'x'*1000000)); await w.drain()
                w.write(ch(b'"}]}\n\n')+ch(b'data: [DONE]\n\n')+b'0\r\n\r\n'); continue
            if M=='gzipbomb':
                b=gzip.compress(b'data: '+b'0'*300_000_000); w.write(full(b,'text/event-stream',extra='Content-Encoding: gzip\r\n')); continue
            if M=='slowheader':
                for c in HEAD: w.write(bytes([c])); await w.drain(); await asyncio.sleep(0.5)
            if M=='slowbody':
                w.write(HEAD)
                for c in ch(ev()): w.write(bytes([c])); await w.drain(); await asyncio.sleep(0.5)
            if M=='never': await asyncio.sleep(1000)
            if M=='wronglen': w.write(b'HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n'+ev()); await w.drain(); w.close(); return
            if M=='neglen': w.write(b'HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n'+ev()); continue
            if M=='twolen': w.write(b'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 500\r\n\r\n'+ev()); continue
            if M=='lenchunk': w.write(b'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n'+ch(ev())+b'0\r\n\r\n'); continue
            if M=='biglen': w.write(b'HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616\r\n\r\n'+ev()); continue
            if M=='badchunk': w.write(HEAD+b'zz\r\nxx\r\n'); continue
            if M=='hugechunk': w.write(HEAD+b'ffffffffffffffff\r\nxx\r\n'); continue
            if M=='http10': w.write(b'HTTP/1.0 200 OK\r\n\r\n'+b''.join(ev() for _ in range(n))+ev('','length',us(np,n))+b'data: [DONE]\n\n'); await w.drain(); w.close(); return
            if M=='http09': w.write(ev()*n); await w.drain(); w.close(); return
            if M=='cont100': w.write(b'HTTP/1.1 100 Continue\r\n\r\n'*3)
            if M=='cont100flood':
                while True: w.write(b'HTTP/1.1 100 Continue\r\n\r\n'*1000); await w.drain()
            if M=='headflood':
                w.write(b'HTTP/1.1 200 OK\r\n')
                while True: w.write(b'X-A: '+b'b'*1000+b'\r\n'); await w.drain()
            if M=='redirect': w.write(f'HTTP/1.1 307 X\r\nLocation: http://127.0.0.1:19998/stolen\r\nContent-Length: 0\r\n\r\n'.encode()); continue
            if M=='badutf8': w.write(HEAD+ch(b'data: {"choices":[{"index":0,"text":"\xff\xfe\xc0"}]}\n\n')*n+ch(ev('','length',us(np,n)))+ch(b'data: [DONE]\n\n')+b'0\r\n\r\n'); continue
            if M=='deepjson': w.write(HEAD+ch(b'data: '+b'{"a":'*100000+b'1'+b'}'*100000+b'\n\n')+b'0\r\n\r\n'); continue
            if M=='hugenum': w.write(HEAD+ch(b'data: {"choices":[{"index":0,"text":"x"}],"usage":{"prompt_tokens":1e400,"completion_tokens":99999999999999999999999999}}\n\n')+ch(b'data: [DONE]\n\n')+b'0\r\n\r\n'); continue
            if M=='negusage': w.write(HEAD+ch(ev())*n+ch(ev('','length',us(-5,-7)))+ch(b'data: [DONE]\n\n')+b'0\r\n\r\n'); continue
            if M=='maxusage': w.write(HEAD+ch(ev())*n+ch(ev('','length',us(2**64-1,2**64-1)))+ch(b'data: [DONE]\n\n')+b'0\r\n\r\n'); continue
            if M=='usagefloat': w.write(HEAD+ch(ev())*n+ch(ev('','length',{"prompt_tokens":np+0.5,"completion_tokens":"8"}))+ch(b'data: [DONE]\n\n')+b'0\r\n\r\n'); continue
            if M=='usagechange':
                w.write(HEAD)
                for i in range(n): w.write(ch(ev('x',None,us(np+i*3,n-i))))
                w.write(ch(ev('','length',us(np*2,1)))+ch(b'data: [DONE]\n\n')+b'0\r\n\r\n'); continue
            if M=='usagelie': w.write(HEAD+ch(ev())+ch(ev('','length',us(np,n)))+ch(b'data: [DONE]\n\n')+b'0\r\n\r\n'); continue
            if M=='nofinish': w.write(HEAD+ch(ev())*n+ch(ev('',None,us(np,n)))+ch(b'data: [DONE]\n\n')+b'0\r\n\r\n'); continue
            if M=='nodone': w.write(HEAD+ch(ev())*n+ch(ev('','length',us(np,n)))+b'0\r\n\r\n'); continue
            if M=='afterdone': w.write(HEAD+ch(ev())*n+ch(ev('','length',us(np,n)))+ch(b'data: [DONE]\n\n')+ch(ev())*50+b'0\r\n\r\n'); continue
            if M=='moretokens': w.write(HEAD+ch(ev())*(n*50)+ch(ev('','length',us(np,n*50)))+ch(b'data: [DONE]\n\n')+b'0\r\n\r\n'); continue
            if M=='outoforder': w.write(HEAD+b''.join(ch(ev('x',None,None,i%7-3)) for i in range(n*7))+ch(ev('','length',us(np,n),99))+ch(b'data: [DONE]\n\n')+b'0\r\n\r\n'); continue
            if M=='nochoices': w.write(HEAD+ch(b'data: {"choices":[]}\n\n')*n+ch(b'data: {"choices":null}\n\n')+ch(b'data: null\n\n')+ch(b'data: 5\n\n')+ch(b'data: [DONE]\n\n')+b'0\r\n\r\n'); continue
            if M=='err200': w.write(full(b'{"error":{"message":"CUDA out of memory. \x1b[31m Tried to allocate 99999999999999999999 GiB","code":500}}')); continue
            if M=='err200sse': w.write(HEAD+ch(b'data: {"error":{"message":"CUDA out of memory","code":500}}\n\n')+ch(b'data: [DONE]\n\n')+b'0\r\n\r\n'); continue
            if M=='fakeoom': w.write(full(b'{"error":{"message":"your prompt said: CUDA out of memory. Tried to allocate 2.00 GiB"}}',st='500 X')); continue
            if M=='r429year': w.write(full(b'{}',st='429 Too Many',extra='Retry-After: 31536000\r\n')); continue
            if M=='r503': w.write(full(b'{}',st='503 X',extra='Retry-After: Fri, 31 Dec 9999 23:59:59 GMT\r\n')); continue
            if M=='st999': w.write(full(b'{}',st='999 X')); continue
            if M=='st000': w.write(full(b'{}',st='000 X')); continue
            if M=='rst0': w.transport.abort(); return
            if M=='rst1': w.write(b'HTTP/1.1 2'); await w.drain(); w.transport.abort(); return
            if M=='rst2': w.write(HEAD); await w.drain(); w.transport.abort(); return
            if M=='rst3': w.write(HEAD+ch(ev())); await w.drain(); await asyncio.sleep(.05); w.transport.abort(); return
            if M=='rst4': w.write(HEAD+ch(ev())*n+ch(ev('','length',us(np,n)))); await w.drain(); await asyncio.sleep(.05); w.transport.abort(); return
            if M=='err1g':
                w.write(b'HTTP/1.1 500 X\r\nContent-Length: 1500000000\r\n\r\n')
                for _ in range(1500): w.write(b'E'*1000000); await w.drain()
                continue
            if M=='tinyevents':
                w.write(HEAD)
                for _ in range(3000000): w.write(ch(b':\n'))
                await w.drain()
            if M=='cr': w.write(HEAD+ch(b'data: [DO'+b'\r'*100000+b'\n'*100000)+b'0\r\n\r\n'); continue
            if M=='nul': w.write(HEAD+ch(b'data: {"choices":[{"index":0,"text":"\\u0000\x00"}]}\n\n')*n+ch(ev('','length',us(np,n)))+ch(b'data: [DONE]\n\n')+b'0\r\n\r\n'); continue
            if M=='onepacket': w.write(HEAD+ch(ev('x x x x'))+ch(ev('','length',us(np,n)))+ch(b'data: [DONE]\n\n')+b'0\r\n\r\n'); continue
            if M=='pipelined': w.write((HEAD+ch(ev())*n+ch(ev('','length',us(np,n)))+ch(b'data: [DONE]\n\n')+b'0\r\n\r\n')*3); continue
            if M=='ssh': w.write(b'SSH-2.0-OpenSSH\r\n'); continue
            w.write(HEAD+ch(ev())*n+ch(ev('','length',us(np,n)))+ch(b'data: [DONE]\n\n')+b'0\r\n\r\n'); await w.drain()
    except (asyncio.IncompleteReadError,ConnectionError): pass
    finally:
        try: w.close()
        except Exception: pass
async def main():
    s=await asyncio.start_server(conn,'127.0.0.1',PORT,backlog=20000)
    print(s.sockets[0].getsockname()[1],flush=True)
    await s.serve_forever()
asyncio.run(main())
