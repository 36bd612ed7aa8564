import type { Logger } from 'pino';
import { type PushedFiles, pushedPath } from '../fileserver/pushed-files.ts';
import type { RequestCounters } from '../limits/counters.ts';
import type { PolicyGate } from '../policy/gate.ts';
import type { FileMeter } from './file-meter.ts';
import { type Handler, send } from './request.ts';

/** What the handler of `_file_recv` needs. */
export interface FileRecvOptions {
  readonly pushed: PushedFiles;
  readonly gate: PolicyGate;
  readonly meter: FileMeter;
  readonly counters: RequestCounters;
  readonly log: Logger;
}

/** `_file_recv`: a part of a file that a minion pushes [WIRE 9.9]. */
export function fileRecvHandler({ pushed, gate, meter, counters, log }: FileRecvOptions): Handler {
  return async (request) => {
    const { minionId, isProven, load, bytes } = request;
    await meter.pass(request, bytes);
    if (!isProven || minionId === undefined) return send(false);
    const subject = { kind: 'minion', id: minionId } as const;
    const path = pushedPath(load);
    if (path === undefined) return send(false);
    const question = { subject, action: 'file-send', resource: { path } } as const;
    // protection: push-is-on
    if (gate.decide(question).effect === 'deny') return send(false);
    try {
      const isTaken = await pushed.take(minionId, load);
      if (!isTaken) counters.count('push-refused');
      return send(isTaken);
    } catch (error) {
      log.error({ minion: minionId, err: error }, 'a pushed file was not kept');
      return send(false);
    }
  };
}
