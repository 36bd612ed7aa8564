import type { Logger } from 'pino';
import { emptyWireMap, isWireMap, type WireMap } from '../../minion-protocol/index.ts';
import { type Handler, send } from './request.ts';

/** What top data may depend on. `id` is verified, all else is the minion's own word. */
export interface TopsRequest {
  readonly id: string;
  readonly grains: WireMap;
  readonly saltenv: string | undefined;
}

/** State files by environment: `{ base: ['users', 'web.server'] }`. */
export type Tops = Readonly<Record<string, readonly string[]>>;

/** Says what a minion's highstate has besides its top file: Salt's `master_tops`. */
export type TopsProvider = (request: TopsRequest) => Promise<Tops>;

/** `_master_tops`, and `_ext_nodes` as minions 3000 to 3002 call it [WIRE 9.2]. */
export function topsHandler(provider: TopsProvider, log: Logger): Handler {
  return async ({ minionId, load }) => {
    if (minionId === undefined) return send({});
    const opts = isWireMap(load.opts) ? load.opts : emptyWireMap();
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
  };
}
