export { type CallableApi, rpcMethods, rpcTable } from './methods.ts';
export {
  failCall,
  parseParameters,
  RpcServer,
  refuseMethod,
  type ServedCall,
  serveCall,
} from './server.ts';
export { method, streamMethod } from './table.ts';
