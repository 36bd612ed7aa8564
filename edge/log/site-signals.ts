/** Forwards signals from a site to its centre, if the site has no handle that matches them. */

import { createHash } from 'node:crypto';
import { bridgeServices } from '#heat-bridge';
import type { TriggerEvent } from '#master';
import type { WireMap } from '#minion-protocol';
import type { EdgePart, SiteContext } from '../parts.ts';

/** Pattern for the event tags of signals. */
const signalTag = /^heat\//;

/** Part of the extension `site`. It appends signals to the log of the site. */
export function openSignalSource({ host, options, log }: SiteContext): EdgePart {
  const forward = async (signal: Partial<TriggerEvent>): Promise<string> => {
    const { tag = '', sender = '', data, body, jid, request } = signal;
    const mark = request === undefined ? undefined : `${request.mark} ${request.place}`;
    const id = createHash('sha256')
      .update([options.name, sender, mark ?? `${host.now()} ${Math.random()}`].join('\0'))
      .digest('hex');
    const value: WireMap = { id, tag, minion: sender };
    if (data !== undefined) value.data = data;
    if (body !== undefined) value.body = body;
    if (jid !== undefined) value.jid = jid;
    await log.append({ class: 'signal', kind: 'signal', value, minion: sender || undefined });
    return id;
  };
  const signals = host.find(bridgeServices.signals);
  if (signals !== undefined) {
    signals.intake.elsewhere = forward;
    return {};
  }
  return {
    intake: { isWanted: (tag) => signalTag.test(tag), isDelayed: () => true, take: forward },
  };
}
