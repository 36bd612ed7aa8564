import test from 'ava';
import fc from 'fast-check';
import {
  answerUpgrade,
  type WebsocketBreach,
  WebsocketDecoder,
  type WebsocketEvent,
} from '../../minion-protocol/websocket.ts';
import { clientFrame, OPENING, REQUEST } from '../helpers/stream-masters.ts';
import { base64, cases, text, vectorFile } from '../helpers/vectors.ts';

const vectors = vectorFile('websocket');
const mebibyte = 1024 * 1024;
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

test('the recorded request is read, however it is cut', (t) => {
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
    { numRuns: 300 },
  );
});

test('a message in fragments is put together, and a PING may come in between', (t) => {
  const events = opened().push(
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

test('text is told from bytes, also in fragments', (t) => {
  const events = opened().push(
    Buffer.concat([
      clientFrame(final | textFrame, Buffer.from('close')),
      clientFrame(textFrame, Buffer.from('cl')),
      clientFrame(final, Buffer.from('ose')),
    ]),
  );
  t.deepEqual(events.map(describe), ['text close', 'text close']);
});

test('CLOSE is answered with the normal code, and nothing is read after it', (t) => {
  const decoder = opened();
  const [event] = decoder.push(clientFrame(final | closeFrame, Buffer.from('03e8', 'hex')));
  t.deepEqual(event?.type === 'close' && Buffer.from(event.response).toString('hex'), '880203e8');
  t.deepEqual(decoder.push(REQUEST.ws), []);
});

const masked = '11223344';
const breaches: ReadonlyArray<readonly [string, string, WebsocketBreach, string]> = [
  ['a frame without a mask', '8201ff', 'unmasked', '880203ea'],
  ['a reserved flag', `c281${masked}00`, 'reserved-flags', '880203ea'],
  ['an opcode for data that nobody has', `8381${masked}00`, 'bad-opcode', '880203ea'],
  ['an opcode for control that nobody has', `8b80${masked}`, 'bad-opcode', '880203ea'],
  ['a PING in fragments', `0980${masked}`, 'control-frame', '880203ea'],
  ['a PING of 126 bytes', '89fe007e', 'control-frame', '880203ea'],
  ['a short length in two bytes', `82fe007d${masked}`, 'frame-length', '880203ea'],
  ['a short length in eight bytes', `82ff000000000000ffff${masked}`, 'frame-length', '880203ea'],
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

for (const [title, hex, reason, farewell] of breaches) {
  test(`${title} is refused, and told so`, (t) => {
    const decoder = opened();
    const [event] = decoder.push(Buffer.from(hex, 'hex')).slice(-1);
    if (event?.type !== 'breach') return t.fail('no breach');
    t.is(event.reason, reason);
    t.is(Buffer.from(event.farewell).toString('hex'), farewell);
    t.deepEqual(decoder.push(REQUEST.ws), []);
  });
}

test('fragments count together against the limit', (t) => {
  const decoder = opened(100);
  t.deepEqual(decoder.push(clientFrame(binaryFrame, new Uint8Array(60))), []);
  t.is(decoder.heldBytes, 60);
  const [event] = decoder.push(clientFrame(final, new Uint8Array(41)));
  t.is(event?.type === 'breach' && event.reason, 'message-too-large');
  t.is(decoder.heldBytes, 0);
});

test('memory follows what has arrived, not what was promised', (t) => {
  const decoder = opened(16 * mebibyte);
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

test('several values and spaces in Connection are read, as proxies write them', (t) => {
  const head = OPENING.ws.toString().trimEnd();
  const kept = head.replace('Connection: upgrade', 'Connection: keep-alive ,\t Upgrade');
  t.true(answerUpgrade(kept).isAccepted);
});

test('a head without end is refused at 8 KiB, in one piece or in many', (t) => {
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

test('20,000 mutated streams give events, and nothing else', (t) => {
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
    { numRuns: 20_000, seed: 20_240_102 },
  );
  t.pass();
});

function opened(maxMessageBytes = mebibyte): WebsocketDecoder {
  const decoder = new WebsocketDecoder(maxMessageBytes);
  decoder.push(OPENING.ws);
  return decoder;
}

function describe(event: WebsocketEvent): string {
  if (event.type === 'message')
    return `${event.isText ? 'text' : 'binary'} ${Buffer.from(event.body)}`;
  return event.type === 'ping' ? `ping ${Buffer.from(event.payload)}` : event.type;
}
