/** RPC methods of a site about itself: `edge.status` and `edge.renew`. */

import Type from 'typebox';
import { extensionMethod, type RpcTable } from '#master';
import type { KeyRenewal } from './identity/key-renewal.ts';
import type { LinkState } from './link/link.ts';
import type { SiteConnection } from './link/site-connection.ts';
import type { LogClass, WaitingEntries } from './log/log.ts';
import { validOfflineOf } from './orders/valid-offline.ts';
import type { SiteContext } from './parts.ts';

/** State of a site, as the RPC methods of this site return it. */
export interface SiteStatus extends LinkState {
  readonly name: string;
  readonly centre: string;
  readonly isJoined: boolean;
  /** Reason why there is no connection, or `undefined`. */
  readonly problem: string | undefined;
  /** Latest time that the centre has signed, in milliseconds since 1970. */
  readonly timeFloor: number;
  /**
   * Time without contact to the centre after which the centre's orders become invalid, in seconds.
   */
  readonly validOfflineSeconds: number;
  readonly log: Readonly<Record<LogClass, WaitingEntries>>;
}

export interface SiteStatusOptions {
  readonly context: SiteContext;
  readonly link: SiteConnection;
  readonly renewal: KeyRenewal;
}

const Nothing = Type.Object({}, { additionalProperties: false });

/** Returns the RPC methods. A caller needs full rights for each of them. */
export function siteStatusMethods({ context, link, renewal }: SiteStatusOptions): RpcTable {
  const { options, log } = context;
  return {
    status: extensionMethod({
      parameters: Nothing,
      call: async (): Promise<SiteStatus> => ({
        name: options.name,
        centre: link.centre,
        isJoined: context.identity() !== undefined,
        ...link.state,
        problem: link.problem,
        timeFloor: context.timeFloor(),
        validOfflineSeconds: validOfflineOf(context),
        log: log.waiting,
      }),
    }),
    renew: extensionMethod({
      parameters: Nothing,
      call: async () => {
        await renewal.renew();
        return {};
      },
      audit: { action: 'site.renew', done: () => ({ what: options.name }) },
    }),
  };
}
