import test from 'ava';
import fc from 'fast-check';
import {
  DEFAULT_ZMTP_LIMITS,
  encodeGreeting,
  encodeMessage,
  encodePong,
  encodeReady,
  ZmtpDecoder,
  type ZmtpEvent,
  type ZmtpRole,
} from '../../minion-protocol/zmtp.ts';
import {
  frame,
  GREETING,
  HELLO,
  hex,
  READY_DEALER,
  READY_REQ,
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

test('a REQ peer of libzmq shakes hands and asks', (t) => {
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

test('PING is reported with its context, for PONG to give it back', (t) => {
  t.is(read('PUB', [recorded('sub-heartbeat')]).at(-1), 'ping ');
  const ping = hex('0407 0450494e47 0010');
  t.is(read('ROUTER', [GREETING, READY_REQ, ping]).at(-1), 'ping ');
  const withContext = frame(4, hex('0450494e47 0010 c0ffee'));
  t.is(read('ROUTER', [GREETING, READY_REQ, withContext]).at(-1), 'ping c0ffee');
  t.deepEqual(Buffer.from(encodePong(hex('c0ffee'))), frame(4, hex('04504f4e47 c0ffee')));
});

test('PONG is taken without a word', (t) => {
  const pong = frame(4, hex('04504f4e47'));
  t.deepEqual(read('ROUTER', [GREETING, READY_REQ, pong, HELLO]).slice(2), [
    'message [] [68656c6c6f]',
  ]);
});

test('our greeting says 3.0, NULL and client', (t) => {
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
  test(`${what}: the pieces in which the bytes arrive change nothing`, (t) => {
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
      { numRuns: 200 },
    );
  });
}

test('what encodeMessage wrote, the decoder reads, however it is split', (t) => {
  const frames = fc.array(fc.uint8Array({ maxLength: 600 }), { minLength: 1, maxLength: 8 });
  const cuts = fc.array(fc.nat({ max: 5000 }), { maxLength: 20 });
  fc.assert(
    fc.property(frames, cuts, (message, at) => {
      const bytes = Buffer.concat([GREETING, READY_DEALER, ...encodeMessage(message)]);
      const text = `message ${message.map(bracketed).join(' ')}`;
      t.deepEqual(read('ROUTER', split(bytes, at)).slice(2), [text]);
    }),
    { numRuns: 300 },
  );
});

test('a body of 4 KiB or more is handed through, not copied', (t) => {
  const envelope = new Uint8Array(4096);
  t.is(encodeMessage([new Uint8Array(2), envelope]).at(-1), envelope);
});

test('memory for an unfinished message follows what has arrived', (t) => {
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

test('frames that wait for the rest of their message do not keep the chunk they came in', (t) => {
  const decoder = new ZmtpDecoder('ROUTER', DEFAULT_ZMTP_LIMITS);
  const body = Buffer.concat([frame(1, 'route'), hex('0100')]);
  decoder.push(Buffer.concat([GREETING, READY_DEALER, body]));
  t.is(decoder.heldBytes, 5);
  const [event] = decoder.push(frame(0, 'end'));
  t.true(event?.type === 'message');
  if (event?.type === 'message') t.is(event.frames[0]?.buffer.byteLength, 5);
});

test('between messages nothing is held', (t) => {
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
