/** Receivers of exported events: webhooks and files. */

import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import type { FileExport, WebhookExport } from '#config';
import type { WireMap } from '#minion-protocol';
import { linkSignals, writeJson } from '#runtime';
import { MasterError } from '../api/index.ts';
import { toJson } from '../arguments/index.ts';

/** An event as it is sent. The same number is the same event: it may come twice. */
export interface ExportedEvent {
  readonly sequence: number;
  readonly tag: string;
  readonly data: WireMap;
}

/** Takes events. What it has taken is not sent again, but for a crash in between. */
export interface Receiver {
  /** @throws when not all of them were taken */
  send(events: readonly ExportedEvent[], signal: AbortSignal): Promise<void>;
  /** Ends its connections. */
  close?(): Promise<void>;
}

/** An event as JSON, the same for the same event. */
export function jsonOf({ sequence, tag, data }: ExportedEvent): string {
  return writeJson({ sequence, tag, data: toJson(data) });
}

/** Posts `{"events": [{"sequence", "tag", "data"}, …]}`; an answer of 2xx takes all of them. */
export function webhookReceiver({ webhook, headers = {}, timeout = 10 }: WebhookExport): Receiver {
  return {
    send: async (events, signal) => {
      const both = linkSignals(signal, AbortSignal.timeout(timeout * 1000));
      try {
        const response = await fetch(webhook, {
          method: 'POST',
          headers: { 'content-type': 'application/json', ...headers },
          body: `{"events":[${events.map(jsonOf).join(',')}]}`,
          redirect: 'error',
          signal: both.signal,
        });
        await response.body?.cancel();
        if (response.ok) return;
        throw new MasterError('ERR_EVENT_EXPORT', `the webhook answered ${response.status}`);
      } finally {
        both.unlink();
      }
    },
  };
}

/** Appends a line for each event, on the disk before the next batch. */
export function fileReceiver({ file }: FileExport): Receiver {
  const { O_APPEND, O_CREAT, O_NOFOLLOW, O_RDWR } = constants;
  return {
    send: async (events) => {
      // Opened each time: programs that rotate files rename it.
      const handle = await open(file, O_APPEND | O_CREAT | O_NOFOLLOW | O_RDWR, 0o600);
      try {
        const { size } = await handle.stat();
        const { buffer } = await handle.read(Buffer.alloc(1), 0, 1, Math.max(0, size - 1));
        // A crash may have left half a line.
        const begin = size > 0 && buffer[0] !== 0x0a ? '\n' : '';
        await handle.appendFile(`${begin}${events.map((event) => `${jsonOf(event)}\n`).join('')}`);
        await handle.datasync();
      } finally {
        await handle.close();
      }
    },
  };
}
