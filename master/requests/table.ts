/**
 * Every function that a minion may ask for. The table is exhaustive and closed: what is not in it
 * cannot be called, whatever it is called [THREATS G-02, C-23].
 */
import type { FileCommand } from './files.ts';
import type { MineHandlers } from './mine.ts';
import type { PeerHandlers } from './peers.ts';
import { type Handler, send } from './request.ts';

/** The handlers that do something in this master; they need its parts. */
export interface ActiveHandlers
  extends Readonly<Record<FileCommand, Handler>>,
    MineHandlers,
    PeerHandlers {
  readonly _return: Handler;
  readonly _minion_event: Handler;
  readonly _pillar: Handler;
  readonly revoke_auth: Handler;
  readonly _file_recv: Handler;
  readonly _register_resources: Handler;
  readonly _master_opts: Handler;
  readonly _master_tops: Handler;
}

/** `cmd` → handler. Salt's `verify_minion` is in its list too, and answers an empty text. */
export type RequestTable = ReadonlyMap<string, Handler>;

export function createRequestTable(active: ActiveHandlers): RequestTable {
  const handlers: Record<string, Handler> = {
    ...active,
    // The name that minions 3000 to 3002 use for _master_tops.
    _ext_nodes: active._master_tops,
    verify_minion: async () => send(''),
  };
  // protection: table-is-an-object
  return new Map(Object.entries(handlers));
}
