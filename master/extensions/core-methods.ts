import type { RpcMethod } from '../api/index.ts';
import { rpcMethods } from '../rpc/index.ts';
import { masterServices } from './master-services.ts';
import type { ServiceKey } from './services.ts';

/** Services that implement a group of methods. The key is the first part of the method names. */
const answeredBy: ReadonlyMap<string, ServiceKey<object>> = new Map<string, ServiceKey<object>>([
  ['pillar', masterServices.pillar],
  ['reactions', masterServices.reactions],
]);

/**
 * Returns the methods of the table. Omits method groups of extensions that are not loaded.
 * @param find - looks up a service. Default: all services are available
 */
export function coreMethods(
  find: (key: ServiceKey<object>) => object | undefined = (key) => key,
): ReadonlyMap<string, RpcMethod> {
  return new Map(
    [...rpcMethods].filter(([name]) => {
      const key = answeredBy.get(name.replace(/\..*/, ''));
      return key === undefined || find(key) !== undefined;
    }),
  );
}
