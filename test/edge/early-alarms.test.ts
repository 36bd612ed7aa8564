/** Alarms that a site sends before the centre has accepted it. */

import { EventEmitter } from 'node:events';
import test from 'ava';
import Type from 'typebox';
import type { WebSocket } from 'ws';
import { EdgeError } from '#edge/errors.ts';
import { decodeFrame } from '#edge/link/frames.ts';
import { encodeProof, helloHeader } from '#edge/link/handshake.ts';
import { HandshakeMessages } from '#edge/link/handshake-messages.ts';
import { defineMessage, type LinkClass } from '#edge/link/link.ts';
import { LinkHandlers, LinkPeer } from '#edge/link/link-peer.ts';
import { startCentre } from './edge-stage.ts';
import { batchOf, entryOf, helloOf, joinRaw, RawLink } from './raw-site.ts';

/** Socket that keeps the sent messages. */
class FakeSocket extends EventEmitter {
  readonly sent: Buffer[] = [];
  send(bytes: Buffer, done: () => void): void {
    this.sent.push(bytes);
    done();
  }
}

function messageOf(name: LinkClass) {
  return defineMessage({
    name: `test.${name}`,
    sender: 'site',
    class: name,
    params: Type.Object({ text: Type.String() }),
    reply: Type.Object({}),
  });
}

test('a site sends a few alarms before the centre has accepted it, and all else afterwards', (t) => {
  const socket = new FakeSocket();
  const peer = new LinkPeer({
    socket: socket as unknown as WebSocket, // the peer uses only these methods
    handlers: new LinkHandlers('centre'),
    from: undefined,
    onWelcome: () => {},
    onEnd: () => {},
    onUnexpected: () => {},
  });
  const namesOfSent = (): readonly string[] =>
    socket.sent.map((bytes) => {
      const frame = decodeFrame(bytes);
      return frame.kind === 'request' ? frame.name : frame.kind;
    });
  for (const [name, text] of [
    ['order', ''],
    ['fact', ''],
    ['alarm', 'x'.repeat(5000)],
    ['alarm', 'x'.repeat(5000)],
  ] as const) {
    peer.call(messageOf(name), { text }).catch(() => {});
  }
  t.deepEqual(namesOfSent(), ['test.alarm'], '8 KiB at most');
  socket.emit('message', Buffer.alloc(0), true);
  t.deepEqual(namesOfSent(), ['test.alarm', 'test.alarm', 'test.order', 'test.fact']);
  t.true(peer.isWaiting);
});

test('the centre holds 16 KiB until it has accepted a site', async (t) => {
  const open = async (frames: readonly Buffer[]): Promise<readonly Buffer[]> => {
    const socket = new FakeSocket();
    const messages = new HandshakeMessages(socket as unknown as WebSocket); // only emits events
    const last = messages.last();
    socket.emit('message', Buffer.from('proof'), true);
    for (const frame of frames) socket.emit('message', frame, true);
    t.is((await last).toString(), 'proof');
    return messages.stop();
  };
  const few = [Buffer.alloc(8000, 1), Buffer.alloc(8000, 2)];
  t.deepEqual(await open(few), few);
  const refused = [
    [Buffer.alloc(10_000), Buffer.alloc(10_000)],
    Array.from({ length: 9 }, () => Buffer.alloc(1)),
  ];
  for (const frames of refused) {
    const error = await t.throwsAsync(open(frames), { instanceOf: EdgeError });
    t.is(error.code, 'ERR_SITE_MESSAGE');
  }
});

test('the centre applies an alarm that arrives with the proof, and none of a stranger', async (t) => {
  const centre = await startCentre(t);
  const identity = await joinRaw(t, centre, 'north');
  const alarm = batchOf([entryOf(1, 'event', { tag: 'fire/1', data: {} })]);
  const hello = helloOf('north');
  const link = await RawLink.open(t, centre, { [helloHeader]: hello.toString('base64url') });
  const challenge = await link.next();
  link.socket.send(encodeProof(identity.key, hello, challenge, Buffer.alloc(0)));
  link.sendRequest(1, 'log.alarm', alarm);
  t.true(await link.isWelcome());
  t.like(decodeFrame(await link.next()), { kind: 'reply', id: 1 });
  const other = await joinRaw(t, centre, 'south');
  const stranger = await RawLink.open(t, centre, { [helloHeader]: hello.toString('base64url') });
  stranger.socket.send(encodeProof(other.key, hello, await stranger.next(), Buffer.alloc(0)));
  const second = batchOf([entryOf(2, 'event', { tag: 'fire/2', data: {} })]);
  stranger.sendRequest(1, 'log.alarm', second);
  t.is(await stranger.closed, 4403);
  const { log } = await centre
    .rpc('site')
    .call<{ log: { alarm: { sequence: number } } }>('show', { name: 'north' });
  t.is(log.alarm.sequence, 1);
});
