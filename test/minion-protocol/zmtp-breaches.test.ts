import test from 'ava';
import { DEFAULT_ZMTP_LIMITS, ZmtpDecoder, type ZmtpRole } from '../../minion-protocol/zmtp.ts';
import {
  frame,
  GREETING,
  HELLO,
  hex,
  longHeader,
  READY_REQ,
  READY_SUB,
  recorded,
} from '../helpers/zmtp-bytes.ts';

const LIMITS = { ...DEFAULT_ZMTP_LIMITS, maxMessageBytes: 1000, maxCommandBytes: 100, maxParts: 4 };
const REQ_OPEN = Buffer.concat([GREETING, READY_REQ]);
const SUB_OPEN = Buffer.concat([GREETING, READY_SUB]);
const SOCKET_TYPE = '0b536f636b65742d54797065';

/** Name of the case, role, bytes up to and including the one that breaks the protocol, reason. */
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
  test(`${title}: closed at the first byte that cannot be right`, (t) => {
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

test('a topic over the limit is refused, by message and by command', (t) => {
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

test('exactly the limit is taken', (t) => {
  const decoder = new ZmtpDecoder('ROUTER', LIMITS);
  const body = Buffer.concat([longHeader(2, 1000n), Buffer.alloc(1000)]);
  t.is(decoder.push(opened(Buffer.concat([hex('0100 0100 0100'), body]))).at(-1)?.type, 'message');
});

test('20,000 damaged streams end in events or one breach, within the limits', (t) => {
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

/** One to four bytes changed, removed or put in, anywhere behind the signature. */
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
