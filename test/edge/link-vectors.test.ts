/** Recorded bytes of the handshake and of frames. Another implementation must produce the same. */

import { readFileSync, writeFileSync } from 'node:fs';
import test from 'ava';
import { keyOfSeed, publicBytesOf } from '#edge/identity/ed25519.ts';
import { deriveSealKey, sealKeyOf } from '#edge/identity/sealed-box.ts';
import { readTicket, writeTicket } from '#edge/identity/tickets.ts';
import { decodeFrame, encodeFrame, type Frame, maxFrameBytes } from '#edge/link/frames.ts';
import {
  encodeChallenge,
  encodeHello,
  encodeProof,
  proofOfHello,
  readChallenge,
  readHello,
  readProof,
  signHello,
} from '#edge/link/handshake.ts';
import { decodeBatch, encodeBatch } from '#edge/log/log-codec.ts';
import { maxRefused } from '#edge/log/log-messages.ts';

const file = new URL('../fixtures/edge/link-vectors.json', import.meta.url);
const centre = keyOfSeed(Buffer.alloc(32, 1));
const site = keyOfSeed(Buffer.alloc(32, 2));
const other = keyOfSeed(Buffer.alloc(32, 3));
const binding = Buffer.alloc(32, 9);

const hello = encodeHello({
  protocol: 1,
  version: '0.1.0',
  nonce: Buffer.alloc(32, 4),
  time: 1_790_000_000_000,
  site: 'north',
  isBound: true,
});
const answer = {
  protocol: 1,
  version: '0.1.0',
  nonce: Buffer.alloc(32, 5),
  time: 1_790_000_000_100,
  sealKey: sealKeyOf(deriveSealKey(centre)),
};
const challenge = encodeChallenge(centre, hello, answer, binding);
const proof = encodeProof(site, hello, challenge, binding);
const signedHello = signHello(site, hello, binding);
const ticket = writeTicket(centre, {
  id: 'A'.repeat(22),
  name: 'north',
  centre: 'https://centre.example',
  expiresAt: 1_790_000_000_000,
});

const frames: readonly Frame[] = [
  { kind: 'request', id: 1, name: 'log.turn', params: {} },
  { kind: 'reply', id: 1, value: { forMs: 30_000 } },
  { kind: 'failure', id: 2, code: 'ERR_SITE_LINK', message: 'retry' },
];
const items = [
  { from: 1, to: 3, oldestAt: 1_790_000_000_000 },
  { sequence: 4, ms: 1_790_000_000_001, count: 2, kind: 'event', value: Uint8Array.of(0x80) },
];

interface Vectors {
  readonly hello: string;
  readonly challenge: string;
  readonly proof: string;
  readonly signedHello: string;
  readonly ticket: string;
  readonly frames: readonly string[];
  readonly batch: string;
}

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

function produced(): Vectors {
  return {
    hello: hex(hello),
    challenge: hex(challenge),
    proof: hex(proof),
    signedHello: hex(signedHello),
    ticket,
    frames: frames.map((frame) => hex(encodeFrame(frame))),
    batch: hex(encodeBatch(items)),
  };
}

test('the handshake, the ticket and frames have the recorded bytes', (t) => {
  if (process.env.UPDATE_VECTORS === '1') {
    writeFileSync(file, `${JSON.stringify(produced(), null, 2)}\n`);
  }
  const recorded: Vectors = JSON.parse(readFileSync(file, 'utf8'));
  const { batch: _, ...rest } = recorded;
  // The bytes of Zstandard may differ between versions of Node.js, so a batch is only decoded.
  const { batch: __, ...own } = produced();
  t.deepEqual(own, rest);
  t.deepEqual(decodeBatch(Buffer.from(recorded.batch, 'hex')), items);
  const decoded = recorded.frames.map((each) => decodeFrame(Buffer.from(each, 'hex')));
  t.is(JSON.stringify(decoded), JSON.stringify(frames));
  t.is(readTicket(recorded.ticket).name, 'north');
});

test('both sides verify the recorded handshake', (t) => {
  const read = readHello(signedHello);
  t.is(read.hello.site, 'north');
  t.true(proofOfHello(read, binding)(publicBytesOf(site)));
  t.false(proofOfHello(read, binding)(publicBytesOf(other)));
  t.is(readChallenge(publicBytesOf(centre), hello, challenge, binding).time, answer.time);
  t.true(readProof(hello, challenge, proof, binding)(publicBytesOf(site)));
  t.false(readProof(hello, challenge, proof, binding)(publicBytesOf(other)));
});

test('a site refuses a centre with another key', (t) => {
  t.throws(() => readChallenge(publicBytesOf(other), hello, challenge, binding), {
    code: 'ERR_SITE_REFUSED',
  });
  const forged = encodeChallenge(other, hello, answer, binding);
  t.throws(() => readChallenge(publicBytesOf(centre), hello, forged, binding), {
    code: 'ERR_SITE_REFUSED',
  });
});

test('signatures of another TLS connection are refused by both sides', (t) => {
  const elsewhere = Buffer.alloc(32, 8);
  t.throws(() => readChallenge(publicBytesOf(centre), hello, challenge, elsewhere), {
    code: 'ERR_SITE_REFUSED',
  });
  t.false(readProof(hello, challenge, proof, elsewhere)(publicBytesOf(site)));
  t.false(proofOfHello(readHello(signedHello), elsewhere)(publicBytesOf(site)));
  const unbound = signHello(site, hello, Buffer.alloc(0));
  t.false(proofOfHello(readHello(unbound), Buffer.alloc(0))(publicBytesOf(site)));
});

test('a changed bit of the hello or the challenge invalidates the signatures', (t) => {
  for (let bit = 0; bit < hello.length * 8; bit += 5) {
    const changed = Buffer.from(hello);
    changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7));
    t.throws(() => readChallenge(publicBytesOf(centre), changed, challenge, binding));
    t.false(readProof(changed, challenge, proof, binding)(publicBytesOf(site)));
    const { signature } = readHello(signedHello);
    const altered = { ...readHello(signedHello), body: changed, signature };
    t.false(proofOfHello(altered, binding)(publicBytesOf(site)));
  }
});

test('frames are at most 64 KiB, and malformed ones are refused', (t) => {
  const frame: Frame = { kind: 'reply', id: 1, value: 'x'.repeat(maxFrameBytes) };
  t.throws(() => encodeFrame(frame), { code: 'ERR_SITE_MESSAGE' });
  for (const bytes of ['', 'c0', '90', '9301', '94000161', '940001a16180ff', '9401a1618080']) {
    t.throws(() => decodeFrame(Buffer.from(bytes, 'hex')), { code: 'ERR_SITE_MESSAGE' });
  }
  const deep = Buffer.concat([Buffer.from('930101', 'hex'), Buffer.alloc(500, 0x91)]);
  t.throws(() => decodeFrame(deep), { code: 'ERR_SITE_MESSAGE' });
});

test('a frame has few elements, and the longest acknowledgement of a batch fits', (t) => {
  const refusal = (_: unknown, index: number) => ({ sequence: index, reason: 'x'.repeat(300) });
  const value = { sequence: 1, refused: Array.from({ length: maxRefused }, refusal) };
  const longest: Frame = { kind: 'reply', id: 1, value };
  t.deepEqual(decodeFrame(encodeFrame(longest)), longest);
  const list = Array.from({ length: 1100 }, () => 1);
  const many: Frame = { kind: 'request', id: 1, name: 'bundle.report', params: list };
  t.throws(() => decodeFrame(encodeFrame(many)), { code: 'ERR_SITE_MESSAGE' });
});
