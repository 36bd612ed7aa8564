import type { WireMap } from '#minion-protocol';

/** Inputs of top data. Only `id` is verified; the other values are claims of the minion. */
interface TopsRequest {
  readonly id: string;
  readonly grains: WireMap;
  readonly saltenv: string | undefined;
}

/** State files by environment: `{ base: ['users', 'web.server'] }`. */
type Tops = Readonly<Record<string, readonly string[]>>;

/**
 * Function that returns state files for a minion's highstate in addition to its top file. Salt:
 * `master_tops`.
 */
export type TopsProvider = (request: TopsRequest) => Promise<Tops>;
