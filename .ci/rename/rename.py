#!/usr/bin/env python3
"""rename.py ROOT TABLE: renames items semantically with rust-analyzer.

TABLE lines:  FILE<TAB>KIND<TAB>OLD<TAB>NEW[<TAB>N]   KIND is fn, struct, enum, field, let, mod, const, type, trait, static, param
N: which match of the definition in the file (1 is the first).
"""
import json, os, re, subprocess, sys, threading, time, queue
root=os.path.abspath(sys.argv[1]); table=sys.argv[2]
p=subprocess.Popen(["rust-analyzer"],stdin=subprocess.PIPE,stdout=subprocess.PIPE,stderr=subprocess.DEVNULL,cwd=root)
ids=0; answers={}; cond=threading.Condition(); status={"quiescent":False}
def send(m):
    b=json.dumps(m).encode(); p.stdin.write(b"Content-Length: %d\r\n\r\n"%len(b)+b); p.stdin.flush()
def reader():
    while True:
        n=None
        while True:
            line=p.stdout.readline()
            if not line: return
            line=line.strip()
            if not line: break
            if line.lower().startswith(b"content-length:"): n=int(line.split(b":")[1])
        m=json.loads(p.stdout.read(n))
        with cond:
            if "id" in m and "method" not in m: answers[m["id"]]=m
            elif m.get("method")=="experimental/serverStatus":
                status.update(m["params"]); print("status",m["params"].get("health"),m["params"].get("quiescent"),m["params"].get("message"),file=sys.stderr)
            elif "id" in m: send({"jsonrpc":"2.0","id":m["id"],"result":None if m["method"]!="workspace/configuration" else [None]*len(m["params"]["items"])})
            cond.notify_all()
threading.Thread(target=reader,daemon=True).start()
def call(method,params,timeout=600):
    global ids; ids+=1; i=ids; send({"jsonrpc":"2.0","id":i,"method":method,"params":params})
    end=time.time()+timeout
    with cond:
        while i not in answers:
            if not cond.wait(max(0.1,end-time.time())) and time.time()>end: raise TimeoutError(method)
        return answers.pop(i)
def note(method,params): send({"jsonrpc":"2.0","method":method,"params":params})
uri=lambda f:"file://"+os.path.join(root,f)
call("initialize",{"processId":os.getpid(),"rootUri":"file://"+root,"capabilities":{"experimental":{"serverStatusNotification":True},"workspace":{"workspaceEdit":{"documentChanges":True,"resourceOperations":["create","rename","delete"]},"configuration":False},"general":{"positionEncodings":["utf-8"]}},
 "initializationOptions":{"checkOnSave":False,"cargo":{"buildScripts":{"enable":True},"allTargets":True,"targetDir":True},"procMacro":{"enable":True},"cachePriming":{"enable":True,"numThreads":2},"numThreads":2,"lru":{"capacity":2000}}})
note("initialized",{})
t0=time.time()
while True:
    with cond:
        if status.get("quiescent"): break
        cond.wait(5)
    if time.time()-t0>900: sys.exit("not ready")
print("ready after %.0f s"%(time.time()-t0),file=sys.stderr)
text={}; version={}
def load(f):
    if f not in text:
        text[f]=open(os.path.join(root,f),encoding="utf-8").read(); version[f]=1
        note("textDocument/didOpen",{"textDocument":{"uri":uri(f),"languageId":"rust","version":1,"text":text[f]}})
    return text[f]
PAT={"fn":r"\bfn\s+(%s)\b","struct":r"\bstruct\s+(%s)\b","enum":r"\benum\s+(%s)\b","trait":r"\btrait\s+(%s)\b","const":r"\bconst\s+(%s)\b","static":r"\bstatic\s+(%s)\b","type":r"\btype\s+(%s)\b","mod":r"\bmod\s+(%s)\b","let":r"\blet\s+(?:mut\s+)?(%s)\b","field":r"(?m)^\s*(?:pub(?:\([a-z]+\))?\s+)?(%s)\s*:","variant":r"(?m)^\s*(%s)\s*(?:[,({]|$)","param":r"[(,]\s*(?:mut\s+)?(%s)\s*:"}
def at(s,off):
    line=s.count("\n",0,off); col=len(s[s.rfind("\n",0,off)+1:off].encode()); return {"line":line,"character":col}
def offset(b,starts,pos): return starts[pos["line"]]+pos["character"]
def apply_edits(f,edits,old=None,kind=None):
    s=load(f)
    if kind=="fn":
        local=re.search(r"\blet\s+(?:mut\s+)?%s\b|\b%s\s*:\s|[|(,]\s*&?(?:mut\s+)?%s\s*[|,)]"%((re.escape(old),)*3),s)
        kept=[]
        lines=s.split("\n")
        for e in edits:
            line=lines[e["range"]["start"]["line"]].encode(); a=e["range"]["start"]["character"]; z=e["range"]["end"]["character"]
            before=line[:a].decode(); after=line[z:].decode()
            sure=re.match(r"\s*(\(|::)",after) or re.search(r"(::|\.|\bfn\s+)\s*$",before) or re.match(r"\s*(pub\s*(\([a-z]+\))?\s+)?use\b",before) or re.search(r"[{,]\s*$",before) and not local
            if sure or not local: kept.append(e)
            else: print("BARE",f,line.decode().strip())
        edits=kept
    s=load(f); b=s.encode(); starts=[0]
    for i,c in enumerate(b):
        if c==10: starts.append(i+1)
    es=sorted(((offset(b,starts,e["range"]["start"]),offset(b,starts,e["range"]["end"]),e["newText"].encode()) for e in edits),reverse=True)
    for a,z,n in es: b=b[:a]+n+b[z:]
    text[f]=b.decode(); version[f]+=1
    open(os.path.join(root,f),"w",encoding="utf-8").write(text[f])
    note("textDocument/didChange",{"textDocument":{"uri":uri(f),"version":version[f]},"contentChanges":[{"text":text[f]}]})
done=bad=0
for raw in open(table):
    raw=raw.rstrip("\n")
    if not raw or raw.startswith("#"): continue
    parts=raw.split("\t")
    if len(parts)<4: print("BAD LINE",raw); continue
    f,kind,old,new=parts[:4]; n=int(parts[4]) if len(parts)>4 and parts[4] else 1
    if not os.path.exists(os.path.join(root,f)): print("NO FILE",raw); bad+=1; continue
    s=load(f); ms=list(re.finditer(PAT[kind]%re.escape(old),s))
    if len(ms)<n: print("NOT FOUND",raw); bad+=1; continue
    try:
        r=call("textDocument/rename",{"textDocument":{"uri":uri(f)},"position":at(s,ms[n-1].start(1)),"newName":new},120)
    except TimeoutError: print("TIMEOUT",raw); bad+=1; continue
    if r.get("error") or not r.get("result"): print("REFUSED",raw,r.get("error",{}).get("message") if r.get("error") else "empty"); bad+=1; continue
    res=r["result"]; changes=res.get("documentChanges") or [{"textDocument":{"uri":u},"edits":e} for u,e in res.get("changes",{}).items()]
    skip=[c for c in changes if "kind" in c]
    if skip: print("FILE OPERATION",raw); bad+=1; continue
    paths=[os.path.relpath(c["textDocument"]["uri"][7:],root) for c in changes]
    if any(q.startswith("..") or q.startswith("target") for q in paths): print("OUTSIDE",raw,paths); bad+=1; continue
    for q,c in zip(paths,changes): apply_edits(q,c["edits"],old,kind)
    done+=1
    if done%50==0: print("done",done,"%.0f s"%(time.time()-t0),file=sys.stderr)
print("renamed",done,"not",bad)
p.kill()
