export {
  type CallerProof,
  callerHeader,
  createCallerProof,
  methodsWithUser,
} from './caller-account.ts';
export { type CallableApi, rpcMethods, rpcTable } from './methods.ts';
export {
  failCall,
  parseParameters,
  RpcServer,
  refuseMethod,
  type ServedCall,
  serveCall,
} from './server.ts';
export { extensionMethod, extensionStream } from './table.ts';
