export { extensionMethod, extensionStream } from './declare-method.ts';
export {
  type CallableApi,
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
