import type { MasterEvent } from '../master/index.ts';
import { encodeFrameHeader, OPCODE_TEXT } from '../minion-protocol/index.ts';
import { jsonText } from './json-text.ts';

/** Makes the bytes of an event. */
type Encode = (event: MasterEvent) => Buffer;

/** Some events in a row, and their bytes. */
interface Run {
  readonly events: readonly MasterEvent[];
  readonly chunks: readonly Buffer[];
}

/** Events up to this size are put together; larger ones would be there twice. */
const smallBytes = 8192;

/** Bytes of events, and of some in a row: made once, however many read them. */
class SharedBytes {
  readonly #encode: Encode;
  readonly #single = new WeakMap<MasterEvent, Buffer>();
  /** The latest run that begins with an event. */
  readonly #runs = new WeakMap<MasterEvent, Run>();

  constructor(encode: Encode) {
    this.#encode = encode;
  }

  of(events: readonly MasterEvent[]): readonly Buffer[] {
    const [first] = events;
    if (first === undefined) return [];
    if (events.length === 1) return [this.#one(first)];
    const known = this.#runs.get(first);
    if (known !== undefined && isSame(known.events, events)) return known.chunks;
    const chunks = joinSmall(events.map((event) => this.#one(event)));
    this.#runs.set(first, { events, chunks });
    return chunks;
  }

  #one(event: MasterEvent): Buffer {
    const known = this.#single.get(event);
    if (known !== undefined) return known;
    const bytes = this.#encode(event);
    this.#single.set(event, bytes);
    return bytes;
  }
}

/** Events as readers get them. */
export class EventTexts {
  readonly #serverSent = new SharedBytes(serverSent);
  readonly #frames = new SharedBytes((event) => textFrame(`data: ${json(event)}\n\n`));
  readonly #framesWithId = new SharedBytes((event) => textFrame(`data: ${jsonWithId(event)}\n\n`));

  /** Server-sent events; scripts look at the line with the tag. */
  serverSent(events: readonly MasterEvent[]): readonly Buffer[] {
    return this.#serverSent.of(events);
  }

  /** A frame of WebSocket each. @param hasId whether its id is in its JSON */
  frames(events: readonly MasterEvent[], hasId: boolean): readonly Buffer[] {
    return (hasId ? this.#framesWithId : this.#frames).of(events);
  }
}

/** The same bytes in fewer pieces. */
function joinSmall(pieces: readonly Buffer[]): Buffer[] {
  const joined: Buffer[] = [];
  let small: Buffer[] = [];
  const join = (): void => {
    if (small.length > 0) joined.push(Buffer.concat(small));
    small = [];
  };
  for (const piece of pieces) {
    if (piece.byteLength <= smallBytes) small.push(piece);
    else {
      join();
      joined.push(piece);
    }
  }
  join();
  return joined;
}

/** A frame of WebSocket with text. */
export function textFrame(text: string): Buffer {
  const payload = Buffer.from(text);
  return Buffer.concat([encodeFrameHeader(OPCODE_TEXT, payload.byteLength), payload]);
}

/** `id:` stands behind the data, so that who stops in between reads the event again. */
function serverSent(event: MasterEvent): Buffer {
  const tag = event.tag.replace(/[\r\n]/g, ' ');
  const id = event.id === undefined ? '' : `id: ${event.id}\n`;
  return Buffer.from(`tag: ${tag}\ndata: ${json(event)}\n${id}\n`);
}

/** `{"tag": …, "data": {…}}` on one line. */
function json({ tag, data }: MasterEvent): string {
  return jsonText({ tag, data });
}

function jsonWithId({ tag, data, id }: MasterEvent): string {
  return jsonText({ tag, data, id: id ?? null });
}

function isSame(a: readonly MasterEvent[], b: readonly MasterEvent[]): boolean {
  return a === b || (a.length === b.length && a.every((event, index) => event === b[index]));
}
