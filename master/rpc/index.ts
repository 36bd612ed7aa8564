export { type MethodDefinition, method, type RpcAccess, rpcAccess, rpcMethods } from './methods.ts';
export { failCall, parseParameters, RpcServer, refuseMethod, serveCall } from './server.ts';
