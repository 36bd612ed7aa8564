export {
  type CallableApi,
  extensionMethod,
  extensionStream,
  methodsWithUser,
  namedMethods,
  rpcMethods,
  rpcTable,
} from './methods.ts';
export {
  type CallerProof,
  callerHeader,
  createCallerProof,
  failCall,
  parseParameters,
  RpcServer,
  refuseMethod,
  type ServedCall,
  serveCall,
} from './server.ts';
