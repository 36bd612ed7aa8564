/** Messages with which a site sends its log to its centre. */

import Type, { type Static, type TObject } from 'typebox';
import { Bytes } from '#store';
import { defineMessage, type LinkMessage } from '../link/link.ts';
import type { LogClass } from './log.ts';

const strict = { additionalProperties: false };

/** Maximum size of the compressed entries of a batch, in bytes. */
export const maxBatchBytes = 64_000;

/** Maximum size of the entries of a batch before compression, in bytes. */
export const maxRawBytes = 1_048_576;

/** Maximum number of entries of a batch. */
export const maxBatchEntries = 2048;

/** Maximum number of refused entries in a reply. */
export const maxRefused = 64;

const Batch = Type.Object(
  {
    /**
     * Random id of the site's log. If the id changes, the centre accepts the entries of the new log
     * from any sequence number.
     */
    log: Type.String({ pattern: '^[A-Za-z0-9_-]{16}$' }),
    /** Entries as MessagePack, compressed with Zstandard, as `encodeBatch` returns them. */
    entries: Type.Refine(Bytes, (value) => value.byteLength <= maxBatchBytes),
  },
  strict,
);

const Acknowledgement = Type.Object(
  {
    /** Sequence number of the last entry that the centre has stored. */
    sequence: Type.Integer({ minimum: 0 }),
    /**
     * Entries that the centre has refused. The site does not send them again. If more entries were
     * refused than the list can contain, the last reason states their number.
     */
    refused: Type.Array(
      Type.Object(
        { sequence: Type.Integer({ minimum: 0 }), reason: Type.String({ maxLength: 300 }) },
        strict,
      ),
      { maxItems: maxRefused },
    ),
  },
  strict,
);
export type Acknowledgement = Readonly<Static<typeof Acknowledgement>>;

type BatchMessage = LinkMessage<typeof Batch, typeof Acknowledgement>;

function batchOf(logClass: LogClass): BatchMessage {
  return defineMessage({
    name: `log.${logClass}`,
    sender: 'site',
    class: logClass,
    params: Batch,
    reply: Acknowledgement,
    isEarly: logClass === 'alarm',
  });
}

/** Requests to store a batch of log entries at the centre, by the class of the entries. */
export const batchMessages: Readonly<Record<LogClass, BatchMessage>> = {
  alarm: batchOf('alarm'),
  signal: batchOf('signal'),
  return: batchOf('return'),
  fact: batchOf('fact'),
};

const Turn = Type.Object({ forMs: Type.Integer({ minimum: 0, maximum: 3_600_000 }) }, strict);
const Nothing: TObject = Type.Object({}, strict);

/**
 * Request with which a site asks for a turn to send returns and facts. The centre replies when the
 * turn begins. `forMs` in the reply is the duration of the turn.
 */
export const turnMessage = defineMessage({
  name: 'log.turn',
  sender: 'site',
  class: 'return',
  params: Nothing,
  reply: Turn,
  maxBytes: 64,
});

/**
 * Message that a site sends if it has no more entries to send in its turn. The turn then ends
 * early.
 */
export const turnEndMessage = defineMessage({
  name: 'log.turn-end',
  sender: 'site',
  class: 'return',
  params: Nothing,
  reply: Nothing,
  maxBytes: 64,
});
