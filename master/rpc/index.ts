export { CallServer } from './call-server.ts';
export { type CallerProof, callerHeader, createCallerProof } from './caller-proof.ts';
export { extensionMethod, extensionStream } from './declare-method.ts';
export { type CallableApi, methodsWithUser, rpcMethods, rpcTable } from './methods.ts';
export { RpcServer } from './server.ts';
