/** Sign-ins of a stranger with the id of a minion. */

import { setImmediate } from 'node:timers/promises';
import test from 'ava';
import { createSilentLogger } from '#master';
import { SignIn, type SignInOptions } from '#master/auth/sign-in.ts';
import type { Peer } from '#minion-protocol';
import { KeyedMutex } from '#runtime';
import { freshNonce } from '../../helpers/vector-requests.ts';

/** Parts of a master that a test replaces. */
interface Parts {
  readonly beforeTask?: (kind: string) => Promise<void>;
  readonly permitsVersion?: () => boolean;
}

/** Returns a function that signs in with a key, for an id whose accepted key is `genuine`. */
function masterWith({ beforeTask, permitsVersion = () => true }: Parts): {
  readonly ask: (pub: string, address: string) => Promise<string>;
  readonly denied: readonly string[];
} {
  const mutex = new KeyedMutex();
  const denied: string[] = [];
  const count = { add: () => {}, count: () => {} };
  // Only these members are used.
  const signIn = new SignIn({
    keys: {
      exclusive: (id: string, work: () => Promise<unknown>) => mutex.run(id, work),
      get: () => ({ state: 'accepted', pem: 'genuine' }),
      takesId: () => true,
      deny: async (_id: string, pem: string) => denied.push(pem),
    },
    rsa: {
      run: async ({ kind }: { readonly kind: string }) => {
        await beforeTask?.(kind);
        return kind === 'check-key' ? true : Buffer.from(kind);
      },
    },
    versions: { permits: permitsVersion },
    counters: count,
    meter: { authentications: count },
    rate: { tryTake: () => true },
    config: { current: { openMode: false, authEvents: false } },
    advice: async () => undefined,
    isFull: () => false,
    masterKeys: {},
    sessions: { obtain: async () => ({ text: '' }) },
    publishKey: { current: { key: { text: '' } } },
    log: createSilentLogger(),
  } as unknown as SignInOptions);
  const ask = async (pub: string, address: string): Promise<string> => {
    const load = { cmd: '_auth', id: 'web1', nonce: freshNonce(), pub, token: Buffer.alloc(256) };
    const peer = { address, publishPort: 4505 } as unknown as Peer; // others are not used
    const reply = await signIn.answer({ enc: 'clear', version: 3, load }, peer);
    return Buffer.from(reply).toString();
  };
  return { ask, denied };
}

test('a minion signs in while a stranger waits for an RSA task for its id', async (t) => {
  for (const slow of ['check-key', 'refuse']) {
    const begun = Promise.withResolvers<void>();
    const release = Promise.withResolvers<void>();
    const { ask, denied } = masterWith({
      beforeTask: async (kind) => {
        if (kind !== slow) return;
        begun.resolve();
        await release.promise;
      },
    });
    const stranger = ask('other', '192.0.2.66');
    await begun.promise;
    let reply = '';
    const genuine = ask('genuine', '192.0.2.1').then((it) => {
      reply = it;
    });
    // Nothing else takes a turn of the event loop.
    await setImmediate();
    t.is(reply, 'accept', slow);
    release.resolve();
    t.is(await stranger, 'refuse');
    await genuine;
    t.deepEqual(denied, ['other']);
  }
});

test('a sign-in that waits is refused if its version is not permitted any more', async (t) => {
  let calls = 0;
  const { ask } = masterWith({
    permitsVersion: () => {
      calls += 1;
      return calls === 1;
    },
  });
  t.regex(await ask('genuine', '192.0.2.1'), /bad load/);
});
