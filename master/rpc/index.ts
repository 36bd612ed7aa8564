export {
  type CallerProof,
  callerHeader,
  createCallerProof,
  methodsWithUser,
} from './caller-account.ts';
export {
  type CallableApi,
  extensionMethod,
  extensionStream,
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
