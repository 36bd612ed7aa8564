/** Sends exported events to webhooks and files. */

import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import type { FileExport, WebhookExport } from '#config';
import type { WireMap } from '#minion-protocol';
import { linkSignals, writeJson } from '#runtime';
import { MasterError } from '../api/index.ts';
import { toJson } from '../arguments/index.ts';

/**
 * Event as it is sent to a receiver. After a failure it may be sent again with the same sequence
 * number.
 */
export interface ExportedEvent {
  readonly sequence: number;
  readonly tag: string;
  readonly data: WireMap;
}

/**
 * Receiver of exported events. An event that the receiver has accepted is not sent again, except
 * after a crash.
 */
export interface Receiver {
  /**
   * Sends events.
   * Rejects if the receiver did not accept all of them.
   */
  send(events: readonly ExportedEvent[], signal: AbortSignal): Promise<void>;
  /** Closes the connections to the receiver. */
  close?(): Promise<void>;
}

/** Returns an event as JSON. The text for the same event is always the same. */
export function jsonOf({ sequence, tag, data }: ExportedEvent): string {
  return writeJson({ sequence, tag, data: toJson(data) });
}

/**
 * Creates a receiver that posts `{"events": [{"sequence", "tag", "data"}, …]}`. A response with a
 * 2xx status means that all events were accepted.
 */
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
        throw new MasterError('ERR_EVENT_EXPORT', `the webhook returned status ${response.status}`);
      } finally {
        both.unlink();
      }
    },
  };
}

/**
 * Creates a receiver that appends one line per event. Each batch is on disk before the next one is
 * accepted.
 */
export function fileReceiver({ file }: FileExport): Receiver {
  const { O_APPEND, O_CREAT, O_NOFOLLOW, O_RDWR } = constants;
  return {
    send: async (events) => {
      // The file is opened again for each batch, because log rotation may have renamed it.
      const handle = await open(file, O_APPEND | O_CREAT | O_NOFOLLOW | O_RDWR, 0o600);
      try {
        const { size } = await handle.stat();
        const { buffer } = await handle.read(Buffer.alloc(1), 0, 1, Math.max(0, size - 1));
        // After a crash, the last line of the file may be incomplete. A line feed ends it.
        const begin = size > 0 && buffer[0] !== 0x0a ? '\n' : '';
        await handle.appendFile(`${begin}${events.map((event) => `${jsonOf(event)}\n`).join('')}`);
        await handle.datasync();
      } finally {
        await handle.close();
      }
    },
  };
}
