export { type CallerProof, callerHeader, createCallerProof } from './caller-account.ts';
export {
  type CallableApi,
  extensionMethod,
  extensionStream,
  methodsWithUser,
  rpcMethods,
  rpcTable,
} from './methods.ts';
export {
  failCall,
  parseParameters,
  RpcServer,
  refuseMethod,
  type ServedCall,
  serveCall,
} from './server.ts';
