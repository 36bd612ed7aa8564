/** `_master_tops`: state files of a minion's highstate beside its top file. */

import type { Logger } from 'pino';
import {
  defineRequestType,
  type ExtensionHost,
  masterServices,
  type OpenExtension,
  send,
  type TopsProvider,
} from '#master';
import { emptyWireMap, isWireMap } from '#minion-protocol';

type RequestType = NonNullable<OpenExtension['requests']>[string];

/** @param own - the program's provider. Default: the one that another extension contributes */
export async function openTops(
  host: ExtensionHost,
  own: TopsProvider | undefined,
): Promise<OpenExtension> {
  const contributions = host.use(masterServices.contributions);
  const log = host.use(masterServices.context).log.child({ component: 'requests' });
  const provider: TopsProvider = async (request) => (await contributions.tops?.(request)) ?? {};
  const request = topsRequest(provider, log);
  return {
    ...(own === undefined ? {} : { tops: own }),
    // Minions 3000 to 3002 call it _ext_nodes [WIRE 9.2].
    requests: { _master_tops: request, _ext_nodes: request },
  };
}

function topsRequest(provider: TopsProvider, log: Logger): RequestType {
  return defineRequestType({
    kind: 'read',
    needsToken: true,
    rate: 'requests',
    load: ({ opts }) => (isWireMap(opts) ? opts : emptyWireMap()),
    handle: async ({ minionId }, opts) => {
      const grains = isWireMap(opts.grains) ? opts.grains : emptyWireMap();
      const saltenv = typeof opts.saltenv === 'string' ? opts.saltenv : undefined;
      try {
        const tops = await provider({ id: minionId, grains: { ...grains, id: minionId }, saltenv });
        return send(Object.fromEntries(Object.entries(tops).map(([env, sls]) => [env, [...sls]])));
      } catch (error) {
        // As in Salt: a provider that fails adds nothing, and the top file counts alone.
        log.error({ minion: minionId, err: error }, 'top data failed');
        return send({});
      }
    },
  });
}
