import type { WireMap } from '#minion-protocol';

/** What top data may depend on. `id` is verified, all else is the minion's own word. */
interface TopsRequest {
  readonly id: string;
  readonly grains: WireMap;
  readonly saltenv: string | undefined;
}

/** State files by environment: `{ base: ['users', 'web.server'] }`. */
type Tops = Readonly<Record<string, readonly string[]>>;

/** Returns the state files of a minion's highstate beside its top file: Salt's `master_tops`. */
export type TopsProvider = (request: TopsRequest) => Promise<Tops>;
