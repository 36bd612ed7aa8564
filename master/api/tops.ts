import type { WireMap } from '#minion-protocol';

/**
 * Request for the top data of a minion. Only `id` is verified; the other values are claims of the
 * minion.
 */
interface TopsRequest {
  readonly id: string;
  readonly grains: WireMap;
  readonly saltenv: string | undefined;
}

/** State files by environment, for example `{ base: ['users', 'web.server'] }`. */
type Tops = Readonly<Record<string, readonly string[]>>;

/**
 * Function that returns state files for a minion's highstate, in addition to the files in
 * `top.sls`. It corresponds to `master_tops` in Salt.
 */
export type TopsProvider = (request: TopsRequest) => Promise<Tops>;
