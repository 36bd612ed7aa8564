/**
 * Handles the request `_master_tops`: returns states for a minion's highstate in addition to those
 * of its top file.
 */

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
import { manyElements } from '../limits.ts';

type RequestType = NonNullable<OpenExtension['requests']>[string];

/**
 * Opens the service that answers `_master_tops`.
 * @param own - provider of the embedding program; default: the provider that another extension
 * contributes
 */
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
    // Minions 3000 to 3002 call this request `_ext_nodes` [WIRE 9.2].
    requests: { _master_tops: request, _ext_nodes: request },
  };
}

function topsRequest(provider: TopsProvider, log: Logger): RequestType {
  return defineRequestType({
    kind: 'read',
    needsToken: true,
    rate: 'requests',
    maxElements: manyElements,
    load: ({ opts }) => (isWireMap(opts) ? opts : emptyWireMap()),
    handle: async ({ minionId }, opts) => {
      const grains = isWireMap(opts.grains) ? opts.grains : emptyWireMap();
      const saltenv = typeof opts.saltenv === 'string' ? opts.saltenv : undefined;
      // The request owns the map. A copy of many grains would take long.
      grains.id = minionId;
      try {
        const tops = await provider({ id: minionId, grains, saltenv });
        return send(Object.fromEntries(Object.entries(tops).map(([env, sls]) => [env, [...sls]])));
      } catch (error) {
        // As in Salt, if the provider fails, the minion gets only the states of the top file.
        log.error(
          { minion: minionId, err: error },
          'the provider of additional top data (tops) failed for a minion; the minion gets only the states of the top file',
        );
        return send({});
      }
    },
  });
}
