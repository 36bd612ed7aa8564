import test from 'ava';
import fc from 'fast-check';
import {
  encodePublicationFrame,
  packLocal,
  packWire,
  TcpFrameDecoder,
  unpackWire,
  WebsocketDecoder,
} from '#minion-protocol';
import { endOfValue } from '#minion-protocol/payload-scanner.ts';
import { encodeReplyFrame, type TcpEvent } from '#minion-protocol/tcp-frames.ts';
import {
  DEFAULT_ZMTP_LIMITS,
  encodeGreeting,
  ZmtpDecoder,
  type ZmtpEvent,
  type ZmtpRole,
} from '#minion-protocol/transport/zmtp.ts';
import { encodePong, encodeReady } from '#minion-protocol/transport/zmtp-commands.ts';
import { encodeMessage } from '#minion-protocol/transport/zmtp-frames.ts';
import type { WebsocketBreach, WebsocketEvent } from '#minion-protocol/websocket.ts';
import { answerUpgrade } from '#minion-protocol/websocket-handshake.ts';
import { tries } from '../helpers/effort.ts';
import { clientFrame, OPENING, REQUEST, tcpVector, tcpVectors } from '../helpers/stream-masters.ts';
import {
  base64,
  canonicalWire,
  cases,
  number,
  object,
  text,
  toWireValue,
  vectorFile,
} from '../helpers/vectors.ts';
import {
  frame,
  GREETING,
  HELLO,
  hex,
  longHeader,
  READY_DEALER,
  READY_REQ,
  READY_SUB,
  recorded,
} from '../helpers/zmtp-bytes.ts';

const RECORDINGS: ReadonlyArray<readonly [string, ZmtpRole]> = [
  ['req', 'ROUTER'],
  ['req-long', 'ROUTER'],
  ['dealer', 'ROUTER'],
  ['sub-to-3.0', 'PUB'],
  ['sub-to-3.1', 'PUB'],
  ['sub-heartbeat', 'PUB'],
];

test('a REQ peer of libzmq completes the handshake and sends a request', (t) => {
  t.deepEqual(read('ROUTER', [recorded('req')]), [
    'greeting',
    'ready REQ',
    'message [] [68656c6c6f]',
  ]);
});

test('a DEALER peer sends an envelope, an empty frame and a body', (t) => {
  t.deepEqual(read('ROUTER', [recorded('dealer')]).slice(1), [
    'ready DEALER',
    'message [726f757465] [] [6f6e65]',
    'message [] [74776f]',
  ]);
});

test('a frame above 255 bytes has an eight-byte length', (t) => {
  t.deepEqual(read('ROUTER', [recorded('req-long')]).slice(2), [
    `message [] [${'61'.repeat(300)}]`,
  ]);
});

for (const version of ['3.0', '3.1']) {
  test(`a SUB peer subscribes as it does to a peer of version ${version}`, (t) => {
    t.deepEqual(read('PUB', [recorded(`sub-to-${version}`)]), [
      'greeting',
      'ready SUB',
      'subscribe broadcast',
      'subscribe abc',
      'cancel abc',
    ]);
  });
}

test('PING is reported with its context, which PONG returns', (t) => {
  t.is(read('PUB', [recorded('sub-heartbeat')]).at(-1), 'ping ');
  const ping = hex('0407 0450494e47 0010');
  t.is(read('ROUTER', [GREETING, READY_REQ, ping]).at(-1), 'ping ');
  const withContext = frame(4, hex('0450494e47 0010 c0ffee'));
  t.is(read('ROUTER', [GREETING, READY_REQ, withContext]).at(-1), 'ping c0ffee');
  t.deepEqual(Buffer.from(encodePong(hex('c0ffee'))), frame(4, hex('04504f4e47 c0ffee')));
});

test('PONG is accepted without a reply', (t) => {
  const pong = frame(4, hex('04504f4e47'));
  t.deepEqual(read('ROUTER', [GREETING, READY_REQ, pong, HELLO]).slice(2), [
    'message [] [68656c6c6f]',
  ]);
});

test('our greeting announces version 3.0, NULL and the client role', (t) => {
  const expected = hex(`ff 0000000000000000 7f 0300 4e554c4c ${'00'.repeat(48)}`);
  t.deepEqual(Buffer.from(encodeGreeting()), expected);
});

test('our READY has the form of libzmq', (t) => {
  t.deepEqual(Buffer.from(encodeReady('SUB')), recorded('sub-to-3.0').subarray(64, 64 + 27));
});

test('our messages have the form of libzmq', (t) => {
  const empty = new Uint8Array(0);
  const hello = Buffer.concat(encodeMessage([empty, Buffer.from('hello')]));
  t.deepEqual(hello, recorded('req').subarray(64 + 40));
  const long = Buffer.concat(encodeMessage([empty, Buffer.alloc(300, 'a')]));
  t.deepEqual(long, recorded('req-long').subarray(64 + 40));
});

for (const [what, role] of RECORDINGS) {
  test(`${what}: the result does not depend on how the bytes are divided`, (t) => {
    const bytes = recorded(what);
    const whole = read(role, [bytes]);
    t.deepEqual(
      read(
        role,
        Array.from(bytes, (byte) => Uint8Array.of(byte)),
      ),
      whole,
    );
    const cuts = fc.array(fc.nat({ max: bytes.length }), { maxLength: 12 });
    fc.assert(
      fc.property(cuts, (at) => {
        t.deepEqual(read(role, split(bytes, at)), whole);
      }),
      tries(50),
    );
  });
}

test('the decoder reads the output of encodeMessage, however it is divided', (t) => {
  const frames = fc.array(fc.uint8Array({ maxLength: 600 }), { minLength: 1, maxLength: 8 });
  const cuts = fc.array(fc.nat({ max: 5000 }), { maxLength: 20 });
  fc.assert(
    fc.property(frames, cuts, (message, at) => {
      const bytes = Buffer.concat([GREETING, READY_DEALER, ...encodeMessage(message)]);
      const text = `message ${message.map(bracketed).join(' ')}`;
      t.deepEqual(read('ROUTER', split(bytes, at)).slice(2), [text]);
    }),
    tries(75),
  );
});

test('a body of 4 KiB or more is passed on without a copy', (t) => {
  const envelope = new Uint8Array(4096);
  t.is(encodeMessage([new Uint8Array(2), envelope]).at(-1), envelope);
});

test('memory for an unfinished message grows with the received bytes', (t) => {
  const decoder = new ZmtpDecoder('ROUTER', DEFAULT_ZMTP_LIMITS);
  const claimed = DEFAULT_ZMTP_LIMITS.maxMessageBytes;
  decoder.push(Buffer.concat([GREETING, READY_REQ, hex('0100')]));
  decoder.push(Buffer.concat([hex('02 00000000'), hex(claimed.toString(16).padStart(8, '0'))]));
  let arrived = 0;
  for (let size = 1; arrived < 1_000_000; size = (size * 3) % 50_021) {
    decoder.push(new Uint8Array(size));
    arrived += size;
    t.true(decoder.heldBytes >= arrived);
    t.true(decoder.heldBytes <= arrived + 64 * 1024);
    t.true(arrived > 512 || decoder.heldBytes <= 2 * arrived + 256);
  }
});

test('frames of an unfinished message do not retain the chunk that they arrived in', (t) => {
  const decoder = new ZmtpDecoder('ROUTER', DEFAULT_ZMTP_LIMITS);
  const body = Buffer.concat([frame(1, 'route'), hex('0100')]);
  decoder.push(Buffer.concat([GREETING, READY_DEALER, body]));
  t.is(decoder.heldBytes, 5);
  const [event] = decoder.push(frame(0, 'end'));
  t.true(event?.type === 'message');
  if (event?.type === 'message') t.is(event.frames[0]?.buffer.byteLength, 5);
});

test('no memory is held between messages', (t) => {
  const decoder = new ZmtpDecoder('ROUTER');
  decoder.push(recorded('dealer'));
  t.is(decoder.heldBytes, 0);
  t.false(decoder.isMidMessage);
  decoder.push(hex('01'));
  t.true(decoder.isMidMessage);
});

function read(role: ZmtpRole, chunks: readonly Uint8Array[]): string[] {
  const decoder = new ZmtpDecoder(role);
  return chunks.flatMap((chunk) => decoder.push(chunk).map(described));
}

function described(event: ZmtpEvent): string {
  switch (event.type) {
    case 'greeting':
      return 'greeting';
    case 'ready':
      return `ready ${event.socketType}`;
    case 'message':
      return `message ${event.frames.map(bracketed).join(' ')}`;
    case 'ping':
      return `ping ${Buffer.from(event.context).toString('hex')}`;
    case 'subscribe':
    case 'cancel':
      return `${event.type} ${event.topic}`;
    case 'breach':
      return `breach ${event.reason}`;
  }
}

function bracketed(bytes: Uint8Array): string {
  return `[${Buffer.from(bytes).toString('hex')}]`;
}

function split(bytes: Uint8Array, cuts: readonly number[]): Uint8Array[] {
  const sorted = [0, ...cuts, bytes.length].sort((a, b) => a - b);
  return sorted.slice(1).map((end, index) => bytes.subarray(sorted[index], end));
}

const LIMITS = { ...DEFAULT_ZMTP_LIMITS, maxMessageBytes: 1000, maxCommandBytes: 100, maxParts: 4 };
const REQ_OPEN = Buffer.concat([GREETING, READY_REQ]);
const SUB_OPEN = Buffer.concat([GREETING, READY_SUB]);
const SOCKET_TYPE = '0b536f636b65742d54797065';

/** Cases: name, role, bytes up to and including the one that violates the protocol, and reason. */
const BREACHES: ReadonlyArray<readonly [string, ZmtpRole, Uint8Array, string]> = [
  ['HTTP', 'ROUTER', Buffer.from('G'), 'signature'],
  ['TLS', 'ROUTER', hex('16'), 'signature'],
  ['SSH', 'PUB', Buffer.from('S'), 'signature'],
  ['a signature that ends wrong', 'PUB', hex('ff0000000000000001 7e'), 'signature'],
  ['ZMTP 2', 'ROUTER', hex('ff0000000000000001 7f 01'), 'version'],
  ['PLAIN', 'ROUTER', Buffer.concat([GREETING.subarray(0, 12), Buffer.from('P')]), 'mechanism'],
  [
    'a mechanism that begins with NULL',
    'ROUTER',
    Buffer.concat([GREETING.subarray(0, 16), Buffer.from('L')]),
    'mechanism',
  ],
  ['a message before READY', 'ROUTER', greeted(hex('0100')), 'message-before-ready'],
  ['PING before READY', 'ROUTER', greeted(frame(4, hex('0450494e470000'))), 'unexpected-command'],
  ['a SUB at the request port', 'ROUTER', greeted(READY_SUB), 'socket-type'],
  ['a REQ at the publish port', 'PUB', greeted(READY_REQ), 'socket-type'],
  ['READY without a type', 'ROUTER', greeted(ready('')), 'socket-type'],
  ['a property without a name', 'ROUTER', greeted(ready('00 00000000')), 'bad-metadata'],
  [
    'a property that overruns',
    'ROUTER',
    greeted(ready(`${SOCKET_TYPE}00000004524551`)),
    'bad-metadata',
  ],
  [
    'a property with 4 GiB',
    'ROUTER',
    greeted(ready(`${SOCKET_TYPE}ffffffff524551`)),
    'bad-metadata',
  ],
  ['a property name that overruns', 'ROUTER', greeted(ready('20536f')), 'bad-metadata'],
  [
    'a property twice',
    'ROUTER',
    greeted(ready(`${SOCKET_TYPE}00000003524551${SOCKET_TYPE}00000003524551`)),
    'bad-metadata',
  ],
  ['ERROR instead of READY', 'ROUTER', greeted(frame(4, hex('054552524f5200'))), 'peer-error'],
  ['READY twice', 'ROUTER', opened(READY_REQ), 'unexpected-command'],
  ['a command nobody knows', 'ROUTER', opened(frame(4, hex('03464f4f'))), 'unexpected-command'],
  ['a command without a name', 'ROUTER', opened(frame(4, '')), 'bad-command'],
  ['a command name that overruns', 'ROUTER', opened(frame(4, hex('0550'))), 'bad-command'],
  ['PING without a time to live', 'ROUTER', opened(frame(4, hex('0450494e4700'))), 'bad-command'],
  [
    'PING with 17 bytes of context',
    'ROUTER',
    opened(frame(4, hex(`0450494e470000${'00'.repeat(17)}`))),
    'bad-command',
  ],
  ['SUBSCRIBE at the request port', 'ROUTER', opened(subscribe('a')), 'unexpected-command'],
  ['reserved flags', 'ROUTER', opened(hex('08')), 'reserved-flags'],
  ['the highest flag', 'ROUTER', opened(hex('80')), 'reserved-flags'],
  ['a command with MORE', 'ROUTER', opened(hex('05')), 'command-with-more'],
  ['a length of 2^63', 'ROUTER', opened(hex('02 80')), 'frame-length'],
  ['a promise of 2^63 - 1', 'ROUTER', opened(longHeader(2, 2n ** 63n - 1n)), 'message-too-large'],
  ['a promise one over the limit', 'ROUTER', opened(longHeader(2, 1001n)), 'message-too-large'],
  [
    'parts that exceed the limit together',
    'ROUTER',
    opened(Buffer.concat([longHeader(3, 900n), Buffer.alloc(900), hex('0065')])),
    'message-too-large',
  ],
  ['MORE without end', 'ROUTER', opened(hex('0100 0100 0100 0100')), 'too-many-parts'],
  ['a long command', 'ROUTER', opened(hex('0465')), 'command-too-large'],
  ['a command of gigabytes', 'ROUTER', greeted(longHeader(6, 2n ** 40n)), 'command-too-large'],
  [
    'a message that is no subscription',
    'PUB',
    Buffer.concat([SUB_OPEN, frame(0, 'x')]),
    'bad-subscription',
  ],
  ['an empty message', 'PUB', Buffer.concat([SUB_OPEN, hex('0000')]), 'bad-subscription'],
  [
    'a subscription in two parts',
    'PUB',
    Buffer.concat([SUB_OPEN, frame(1, hex('01')), frame(0, hex('01'))]),
    'bad-subscription',
  ],
];

for (const [title, role, bytes, reason] of BREACHES) {
  test(`${title}: the connection is closed at the first invalid byte`, (t) => {
    const whole = new ZmtpDecoder(role, LIMITS);
    t.deepEqual(whole.push(bytes).at(-1), { type: 'breach', reason });
    t.is(whole.heldBytes, 0);
    t.deepEqual(whole.push(HELLO), []);

    const bytewise = new ZmtpDecoder(role, LIMITS);
    for (const byte of bytes.subarray(0, -1)) {
      for (const event of bytewise.push(Uint8Array.of(byte))) t.not(event.type, 'breach');
    }
    t.deepEqual(bytewise.push(bytes.subarray(-1)), [{ type: 'breach', reason }]);
  });
}

test('a topic over the limit is refused, as a message and as a command', (t) => {
  const limits = { ...DEFAULT_ZMTP_LIMITS, maxTopicBytes: 3 };
  for (const [topic, type] of [
    ['abc', 'subscribe'],
    ['abcd', 'breach'],
  ] as const) {
    for (const bytes of [subscribe(topic), frame(0, `\u0001${topic}`)]) {
      const decoder = new ZmtpDecoder('PUB', limits);
      t.is(decoder.push(Buffer.concat([SUB_OPEN, bytes])).at(-1)?.type, type);
    }
  }
});

test('a topic of exactly the limit is accepted', (t) => {
  const decoder = new ZmtpDecoder('ROUTER', LIMITS);
  const body = Buffer.concat([longHeader(2, 1000n), Buffer.alloc(1000)]);
  t.is(decoder.push(opened(Buffer.concat([hex('0100 0100 0100'), body]))).at(-1)?.type, 'message');
});

test('20,000 damaged streams end in events or one violation, within the limits', (t) => {
  const random = xorshift(0x5a17);
  let breaches = 0;
  for (let run = 0; run < 20_000; run += 1) {
    const original = recordings[run % recordings.length] ?? GREETING;
    const bytes = damaged(original, random);
    const decoder = new ZmtpDecoder(random() % 2 === 0 ? 'ROUTER' : 'PUB', LIMITS);
    let isBroken = false;
    for (let at = 0; at < bytes.length; ) {
      const size = 1 + (random() % 200);
      const events = decoder.push(bytes.subarray(at, at + size));
      at += size;
      if (isBroken && events.length > 0) t.fail('an event after a breach');
      isBroken ||= events.some((event) => event.type === 'breach');
      if (decoder.heldBytes > LIMITS.maxMessageBytes + 256) t.fail('held too much');
    }
    if (isBroken) breaches += 1;
  }
  t.true(breaches > 10_000);
  t.true(breaches < 20_000);
});

const recordings = ['req', 'req-long', 'dealer', 'sub-to-3.0', 'sub-to-3.1', 'sub-heartbeat'].map(
  recorded,
);

function greeted(bytes: Uint8Array): Buffer {
  return Buffer.concat([GREETING, bytes]);
}

function opened(bytes: Uint8Array): Buffer {
  return Buffer.concat([REQ_OPEN, bytes]);
}

function ready(properties: string): Buffer {
  return frame(4, hex(`055245414459${properties}`));
}

function subscribe(topic: string): Buffer {
  return frame(4, Buffer.concat([hex('09535542534352494245'), Buffer.from(topic)]));
}

/** Changes, removes or inserts one to four bytes at any place after the signature. */
function damaged(original: Uint8Array, random: () => number): Uint8Array {
  const bytes = [...original];
  for (let count = 1 + (random() % 4); count > 0; count -= 1) {
    const at = 10 + (random() % (bytes.length - 10));
    bytes.splice(at, random() % 2, ...(random() % 3 === 0 ? [] : [random() % 256]));
  }
  return Uint8Array.from(bytes);
}

function xorshift(seed: number): () => number {
  let state = seed;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state;
  };
}

const mebibyte = 1024 * 1024;

for (const vector of tcpVectors) {
  for (const form of ['frame_b64', 'frame_old_spec_b64'] as const) {
    test(`${form} of "${text(vector.name)}" has the recorded head and body`, (t) => {
      const [event, ...more] = new TcpFrameDecoder(mebibyte).push(base64(vector[form]));
      if (event?.type !== 'frame') return t.fail('no frame');
      t.deepEqual(more, []);
      t.is(canonicalWire(unpackWire(event.head)), canonicalWire(toWireValue(vector.head)));
      t.is(canonicalWire(unpackWire(event.body)), canonicalWire(toWireValue(vector.body)));
    });
  }
}

const stream = object(vectorFile('tcp_frames').stream);
const bytes = base64(stream.bytes_b64);
const whole = new TcpFrameDecoder(mebibyte).push(bytes);

test('a recorded stream is split at its frames', (t) => {
  t.is(whole.length, number(stream.frames));
  t.is(
    endOfValue(bytes, 0, { maxBytes: mebibyte, maxDepth: 9, maxElements: 99 }),
    number(stream.first_frame_length),
  );
});

test('the frames do not depend on how a stream is divided', (t) => {
  const cuts = fc.array(fc.nat({ max: bytes.length }), { maxLength: 40 });
  fc.assert(
    fc.property(cuts, (places) => {
      const decoder = new TcpFrameDecoder(mebibyte);
      const events: TcpEvent[] = [];
      const edges = [0, ...places.sort((left, right) => left - right), bytes.length];
      for (const [index, edge] of edges.entries()) {
        events.push(...decoder.push(Buffer.from(bytes.subarray(edge, edges[index + 1] ?? edge))));
      }
      t.deepEqual(plain(events), plain(whole));
      t.false(decoder.isMidMessage);
      t.is(decoder.heldBytes, 0);
    }),
    tries(75),
  );
});

test('the scanner finds the end of all packed values', (t) => {
  const value = fc.letrec<{ any: unknown }>((tie) => ({
    any: fc.oneof(
      { maxDepth: 4 },
      fc.constantFrom(null, true, false, 1.5, 2n ** 63n, -(2n ** 40n)),
      fc.integer(),
      fc.string({ maxLength: 300 }),
      fc.uint8Array({ maxLength: 300 }),
      fc.array(tie('any'), { maxLength: 20 }),
      fc.dictionary(fc.string(), tie('any'), { maxKeys: 20, noNullPrototype: true }),
    ),
  })).any;
  const limits = { maxBytes: mebibyte, maxDepth: 64, maxElements: 100_000 };
  fc.assert(
    fc.property(value, (any) => {
      for (const pack of [packWire, packLocal]) {
        const packed = pack(any as Parameters<typeof packWire>[0]);
        const followed = Buffer.concat([packed, Buffer.of(0xc1)]);
        if (endOfValue(followed, 0, limits) !== packed.length) return false;
        if (endOfValue(packed.subarray(0, -1), 0, limits) !== undefined) return false;
      }
      return true;
    }),
  );
  t.pass();
});

const breaches: ReadonlyArray<readonly [string, string, string]> = [
  ['a reserved byte', 'c1', 'bad-payload'],
  ['HTTP', Buffer.from('GET / HTTP/1.1\r\n').toString('hex'), 'bad-frame'],
  ['a text in place of a frame', 'a26f6b', 'bad-frame'],
  ['a map without a body', '81a46865616480', 'bad-frame'],
  ['a map with more than head and body', '83a46865616480a4626f647901a17801', 'bad-frame'],
  ['the head twice', '82a46865616480a46865616480', 'bad-frame'],
  ['a head that is no map', '82a46865616401a4626f647901', 'bad-frame'],
  ['a key that cannot be read', '82c7004f80a4626f647901', 'bad-frame'],
  ['a promise of gigabytes', '82a46865616480a4626f6479c6ffffffff', 'message-too-large'],
  ['a list of billions', '82a46865616480a4626f6479ddffffffff', 'too-many-elements'],
  ['a map of billions', 'dfffffffff', 'too-many-elements'],
  ['nesting without end', '91'.repeat(5000), 'too-deep'],
];

for (const [title, hex, reason] of breaches) {
  test(`${title} is refused, and reading stops`, (t) => {
    const decoder = new TcpFrameDecoder(mebibyte);
    t.deepEqual(decoder.push(Buffer.from(hex, 'hex')), [{ type: 'breach', reason }]);
    t.deepEqual(decoder.push(base64(tcpVector('refusal').frame_b64)), []);
    t.is(decoder.heldBytes, 0);
  });
}

test('a body up to the limit is accepted, and a larger one is refused by its head', (t) => {
  const frame = Buffer.concat(encodePublicationFrame(new Uint8Array(5000)));
  t.is(new TcpFrameDecoder(5000).push(frame)[0]?.type, 'frame');
  const refused = new TcpFrameDecoder(3000).push(frame.subarray(0, 20));
  t.deepEqual(refused, [{ type: 'breach', reason: 'message-too-large' }]);
});

test('memory grows with the received bytes, not with the announced length', (t) => {
  const decoder = new TcpFrameDecoder(16 * mebibyte);
  const frame = Buffer.concat(encodePublicationFrame(new Uint8Array(10_000_000)));
  decoder.push(frame.subarray(0, 100));
  t.true(decoder.heldBytes < 1024);
  decoder.push(frame.subarray(100, 1_000_000));
  t.true(decoder.heldBytes < 1_100_000);
  t.is(decoder.push(frame.subarray(1_000_000))[0]?.type, 'frame');
});

test('a reply and a publication are written as Salt writes them', (t) => {
  const reply = tcpVector('reply to it');
  const head = packLocal(toWireValue(reply.head));
  const body = packLocal(toWireValue(reply.body));
  t.deepEqual(Buffer.concat(encodeReplyFrame(head, body)), base64(reply.frame_b64));
  const publication = tcpVector('publication');
  const envelope = toWireValue(publication.body);
  if (!(envelope instanceof Uint8Array)) return t.fail('no envelope');
  t.deepEqual(Buffer.concat(encodePublicationFrame(envelope)), base64(publication.frame_b64));
});

test('20,000 mutated frames are either frames or violations', (t) => {
  const frames = tcpVectors.map((vector) => base64(vector.frame_b64));
  const edit = fc.tuple(fc.nat(), fc.nat({ max: 3 }), fc.uint8Array({ maxLength: 5 }));
  fc.assert(
    fc.property(fc.constantFrom(...frames), fc.array(edit, { maxLength: 6 }), (frame, edits) => {
      let bad = frame;
      for (const [place, cut, insert] of edits) {
        const at = place % (bad.length + 1);
        bad = Buffer.concat([bad.subarray(0, at), insert, bad.subarray(at + cut)]);
      }
      const kinds = new TcpFrameDecoder(mebibyte).push(bad).map(({ type }) => type);
      return kinds.every((type) => type === 'frame' || type === 'breach');
    }),
    tries(1000),
  );
  t.pass();
});

function plain(events: readonly TcpEvent[]): unknown {
  return events.map((event) =>
    event.type === 'frame'
      ? { ...event, head: Buffer.from(event.head), body: Buffer.from(event.body) }
      : event,
  );
}

const vectors = vectorFile('websocket');
const final = 0x80;
const [textFrame, binaryFrame, closeFrame, pingFrame, pongFrame] = [1, 2, 8, 9, 10];

for (const handshake of cases(vectors, 'handshakes')) {
  test(`the recorded handshake of a ${text(handshake.name)} is accepted`, (t) => {
    const [event] = new WebsocketDecoder(mebibyte).push(Buffer.from(text(handshake.request)));
    if (event?.type !== 'upgrade') return t.fail('no upgrade');
    const answer = Buffer.from(event.response).toString();
    t.true(answer.startsWith('HTTP/1.1 101 '));
    t.true(answer.includes(`\r\nSec-WebSocket-Accept: ${text(handshake.accept)}\r\n`));
    t.true(answer.endsWith('\r\n\r\n'));
  });
}

test('the recorded request is read, however it is divided', (t) => {
  const bytes = Buffer.concat([OPENING.ws, REQUEST.ws]);
  const message = base64(cases(vectors, 'messages')[0]?.message_b64);
  fc.assert(
    fc.property(fc.array(fc.nat({ max: bytes.length }), { maxLength: 30 }), (places) => {
      const decoder = new WebsocketDecoder(mebibyte);
      const edges = [0, ...places.sort((left, right) => left - right), bytes.length];
      const events = edges.flatMap((edge, index) =>
        decoder.push(Buffer.from(bytes.subarray(edge, edges[index + 1] ?? edge))),
      );
      t.deepEqual(
        events.map(({ type }) => type),
        ['upgrade', 'message'],
      );
      const last = events[1];
      t.deepEqual(last?.type === 'message' && Buffer.from(last.body), message);
      t.false(decoder.isMidMessage);
      t.is(decoder.heldBytes, 0);
    }),
    tries(75),
  );
});

test('a message in fragments is joined, and a PING may arrive in between', (t) => {
  const events = openedWebsocket().push(
    Buffer.concat([
      clientFrame(binaryFrame, Buffer.from('one ')),
      clientFrame(final | pingFrame, Buffer.from('there?')),
      clientFrame(0, Buffer.from('two ')),
      clientFrame(final | pongFrame, Buffer.alloc(0)),
      clientFrame(final, Buffer.from('three')),
    ]),
  );
  t.deepEqual(events.map(describe), ['ping there?', 'binary one two three']);
});

test('text and bytes are distinguished, also in fragments', (t) => {
  const events = openedWebsocket().push(
    Buffer.concat([
      clientFrame(final | textFrame, Buffer.from('close')),
      clientFrame(textFrame, Buffer.from('cl')),
      clientFrame(final, Buffer.from('ose')),
    ]),
  );
  t.deepEqual(events.map(describe), ['text close', 'text close']);
});

test('CLOSE is answered with the normal code, and reading stops', (t) => {
  const decoder = openedWebsocket();
  const [event] = decoder.push(clientFrame(final | closeFrame, Buffer.from('03e8', 'hex')));
  t.deepEqual(event?.type === 'close' && Buffer.from(event.response).toString('hex'), '880203e8');
  t.deepEqual(decoder.push(REQUEST.ws), []);
});

const masked = '11223344';
const websocketBreaches: ReadonlyArray<readonly [string, string, WebsocketBreach, string]> = [
  ['a frame without a mask', '8201ff', 'unmasked', '880203ea'],
  ['a reserved flag', `c281${masked}00`, 'reserved-flags', '880203ea'],
  ['an opcode for data that nobody has', `8381${masked}00`, 'bad-opcode', '880203ea'],
  ['an opcode for control that nobody has', `8b80${masked}`, 'bad-opcode', '880203ea'],
  ['a PING in fragments', `0980${masked}`, 'control-frame', '880203ea'],
  ['a PING of 126 bytes', '89fe007e', 'control-frame', '880203ea'],
  ['a close code that is reserved', `8882${masked}12cf`, 'control-frame', '880203ea'],
  ['a length beyond 2^53', `82ffffffffffffffffff${masked}`, 'frame-length', '880203ea'],
  ['a continuation of nothing', `8081${masked}00`, 'fragment-order', '880203ea'],
  ['a message in a message', `0280${masked}8280${masked}`, 'fragment-order', '880203ea'],
  ['a promise of gigabytes', `82ff00000000ffffffff${masked}`, 'message-too-large', '880203f1'],
  [
    'fragments without end',
    `0280${masked}${`0080${masked}`.repeat(1100)}`,
    'too-many-fragments',
    '880203ea',
  ],
];

for (const [title, hex, reason, farewell] of websocketBreaches) {
  test(`${title} is refused with a close frame`, (t) => {
    const decoder = openedWebsocket();
    const [event] = decoder.push(Buffer.from(hex, 'hex')).slice(-1);
    if (event?.type !== 'breach') return t.fail('no breach');
    t.is(event.reason, reason);
    t.is(Buffer.from(event.farewell).toString('hex'), farewell);
    t.deepEqual(decoder.push(REQUEST.ws), []);
  });
}

test('the limit applies to the sum of fragments', (t) => {
  const decoder = openedWebsocket(100);
  t.deepEqual(decoder.push(clientFrame(binaryFrame, new Uint8Array(60))), []);
  t.true(decoder.heldBytes >= 60);
  t.true(decoder.heldBytes < 300);
  const [event] = decoder.push(clientFrame(final, new Uint8Array(41)));
  t.is(event?.type === 'breach' && event.reason, 'message-too-large');
  t.is(decoder.heldBytes, 0);
});

test('a length that is not in its shortest form is accepted', (t) => {
  const decoder = openedWebsocket();
  const [event] = decoder.push(Buffer.from(`82fe0001${masked}70`, 'hex'));
  t.is(event === undefined ? '' : describe(event), 'binary a');
});

test('small chunks of a message are counted with their overhead', (t) => {
  const decoder = openedWebsocket();
  decoder.push(Buffer.from(`82fe1000${masked}`, 'hex'));
  for (let count = 0; count < 1000; count += 1) decoder.push(Buffer.of(0));
  t.true(decoder.heldBytes > 100_000);
  decoder.push(new Uint8Array(4096 - 1000));
  t.is(decoder.heldBytes, 0);
});

test('fragments count with the chunks that they retain in memory', (t) => {
  const decoder = openedWebsocket();
  const chunk = Buffer.concat([
    clientFrame(binaryFrame, Buffer.from('a')),
    ...Array.from({ length: 1000 }, () => clientFrame(final | pongFrame, Buffer.alloc(50))),
  ]);
  t.deepEqual(decoder.push(chunk), []);
  t.true(decoder.heldBytes >= chunk.length);
});

test('a small message does not retain the chunk that it arrived in', (t) => {
  const decoder = openedWebsocket();
  const message = clientFrame(final | binaryFrame, Buffer.from('a'));
  const rest = clientFrame(final | binaryFrame, Buffer.alloc(50_000));
  const chunk = Buffer.concat([message, rest.subarray(0, 40_000)]);
  const [event] = decoder.push(chunk);
  t.true(event?.type === 'message' && event.body.buffer !== chunk.buffer);
  t.true(decoder.heldBytes > 40_000);
});

test('memory for a WebSocket message grows with the received bytes, not with the announced length', (t) => {
  const decoder = openedWebsocket(16 * mebibyte);
  decoder.push(Buffer.from(`82ff0000000000900000${masked}`, 'hex'));
  decoder.push(new Uint8Array(1_000_000));
  t.true(decoder.heldBytes < 1_100_000);
});

const heads: ReadonlyArray<readonly [string, (head: string) => string, string]> = [
  ['another method', (head) => head.replace('GET', 'POST'), '400'],
  ['HTTP/1.0', (head) => head.replace('HTTP/1.1', 'HTTP/1.0'), '400'],
  ['a line that is no header', (head) => head.replace('Accept: */*', 'Accept */*'), '400'],
  ['a header over two lines', (head) => head.replace('Accept: */*', 'Accept:\r\n  */*'), '400'],
  ['no Upgrade', (head) => head.replace('Upgrade: websocket\r\n', ''), '426'],
  ['another protocol', (head) => head.replace('websocket', 'h2c'), '426'],
  ['no Connection', (head) => head.replace('Connection: upgrade\r\n', ''), '426'],
  ['another version', (head) => head.replace('Version: 13', 'Version: 8'), '426'],
  ['a key that is none', (head) => head.replace(/Key: .*==/, 'Key: abc'), '400'],
];

for (const [title, change, status] of heads) {
  test(`a handshake with ${title} is answered with ${status}`, (t) => {
    const head = OPENING.ws.toString().trimEnd();
    t.true(answerUpgrade(head).isAccepted);
    const { isAccepted, response } = answerUpgrade(change(head));
    t.false(isAccepted);
    t.true(Buffer.from(response).toString().startsWith(`HTTP/1.1 ${status} `));
  });
}

test('several values and spaces in Connection are accepted, as proxies write them', (t) => {
  const head = OPENING.ws.toString().trimEnd();
  const kept = head.replace('Connection: upgrade', 'Connection: keep-alive ,\t Upgrade');
  t.true(answerUpgrade(kept).isAccepted);
});

test('an unfinished head is refused at 8 KiB, in one piece or in many', (t) => {
  const endless = Buffer.from(`GET / HTTP/1.1\r\nX: ${'x'.repeat(20_000)}`);
  const [event] = new WebsocketDecoder(mebibyte).push(endless);
  t.is(event?.type === 'breach' && event.reason, 'head-too-large');
  const decoder = new WebsocketDecoder(mebibyte);
  let pushed = 0;
  while (
    pushed < endless.length &&
    decoder.push(endless.subarray(pushed, pushed + 100)).length === 0
  ) {
    pushed += 100;
    t.true(decoder.heldBytes <= 8192 + 100);
  }
  t.true(pushed < 8400);
});

test('20,000 mutated streams give only events', (t) => {
  const stream = Buffer.concat([
    OPENING.ws,
    clientFrame(binaryFrame, Buffer.from('one')),
    clientFrame(final | pingFrame, Buffer.from('?')),
    clientFrame(final, Buffer.from('two')),
    REQUEST.ws,
    clientFrame(final | closeFrame, Buffer.from('03e8', 'hex')),
  ]);
  const edit = fc.tuple(fc.nat(), fc.nat({ max: 3 }), fc.uint8Array({ maxLength: 5 }));
  fc.assert(
    fc.property(fc.array(edit, { maxLength: 6 }), fc.nat({ max: 300 }), (edits, cut) => {
      let bad = stream;
      for (const [place, removed, insert] of edits) {
        const at = place % (bad.length + 1);
        bad = Buffer.concat([bad.subarray(0, at), insert, bad.subarray(at + removed)]);
      }
      const decoder = new WebsocketDecoder(mebibyte);
      const events = [...decoder.push(bad.subarray(0, cut)), ...decoder.push(bad.subarray(cut))];
      const last = events.findIndex(({ type }) => type === 'breach' || type === 'close');
      return last === -1 || last === events.length - 1;
    }),
    tries(1000),
  );
  t.pass();
});

function openedWebsocket(maxMessageBytes = mebibyte): WebsocketDecoder {
  const decoder = new WebsocketDecoder(maxMessageBytes);
  decoder.push(OPENING.ws);
  return decoder;
}

function describe(event: WebsocketEvent): string {
  if (event.type === 'message')
    return `${event.isText ? 'text' : 'binary'} ${Buffer.from(event.body)}`;
  return event.type === 'ping' ? `ping ${Buffer.from(event.payload)}` : event.type;
}
