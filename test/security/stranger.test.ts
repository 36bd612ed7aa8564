/** Attacks by strangers who can reach a port, over each transport. */
import { createPublicKey, generateKeyPairSync } from 'node:crypto';
import test, { type ExecutionContext } from 'ava';
import {
  isWireMap,
  packWire,
  parsePublicKey,
  rsaVerify,
  unpackWire,
  type WireMap,
  type WireValue,
  wireBytes,
} from '#minion-protocol';
import { encodeRequest } from '#minion-protocol/encode-request.ts';
import { HmacKey } from '#minion-protocol/hmac-key.ts';
import { rsaPair } from '../helpers/rsa-keys.ts';
import { freshNonce, recorded } from '../helpers/vector-requests.ts';
import { base64, keys, pem } from '../helpers/vectors.ts';
import { connectRaw } from '../helpers/zeromq-master.ts';
import { listen, WIRES } from './doors.ts';
import {
  bothAreHeard,
  hostile,
  type Load,
  oldRequest,
  requestBy,
  SECRET,
  type Site,
  startSite,
  VICTIM,
  victim,
} from './site.ts';

const masterKey = parsePublicKey(pem('master').publicPem);
const firstContact = recorded(
  'auth',
  'v3 OAEP-SHA1 PKCS1v15-SHA1 accepted, first contact (no token)',
);

/**
 * Returns the recorded sign-in with changed fields, and with a changed envelope if one is given.
 */
function signIn(changes: Load, envelope: Load = {}): Buffer {
  const outer = asMap(unpackWire(base64(firstContact.request_b64)));
  const load = without({ ...asMap(outer.load ?? null), nonce: freshNonce(), ...changes });
  return packWire(without({ ...outer, load, ...envelope }));
}

/** Returns the content of a signed reply. Fails if the signature is not the master's. */
function signedAnswer(t: ExecutionContext, reply: Uint8Array): WireMap {
  const { load, sig } = asMap(unpackWire(reply));
  const bytes = typeof load === 'string' ? Buffer.from(load) : wireBytes(load);
  const signature = wireBytes(sig);
  if (bytes === undefined || signature === undefined) return t.fail('no signed answer');
  t.true(rsaVerify(masterKey, bytes, signature, 'PKCS1v15-SHA1'));
  return asMap(unpackWire(bytes));
}

/** Checks that sign-ins still work: a new key becomes pending, and the known key is accepted. */
async function signInsAreTaken(t: ExecutionContext, { door, operator }: Site): Promise<void> {
  const known = signedAnswer(t, await door.ask(signIn({ id: keys.minionId })));
  t.is(known.enc, 'pub');
  const fresh = await door.ask(signIn({ id: 'newcomer', pub: pem('minion2').publicPem }));
  t.is(signedAnswer(t, fresh).ret, true);
  const waiting = (await operator.master.keys.list()).filter(({ state }) => state === 'pending');
  t.deepEqual(
    waiting.map(({ id }) => id),
    ['newcomer'],
  );
}

const craftedIds: readonly WireValue[] = [
  '',
  '.',
  '..',
  '../escape',
  '../minions/escape',
  'a/b',
  'a\\..\\b',
  'nul\0',
  'line\nfeed',
  '/etc/passwd',
  'a'.repeat(256),
  7,
  ['list'],
  { map: 1 },
  null,
];

const clearCommands = [
  'publish',
  'runner',
  'wheel',
  'mk_token',
  'get_token',
  '_prep_auth_info',
  '_prep_pub',
  '_send_pub',
  '_send_ssh_pub',
  'minion_pub',
  'minion_runner',
  '_return',
  '_pillar',
  '_file_list',
  '_serve_file',
  '_minion_event',
  '__init__',
  '__proto__',
  'constructor',
  'toString',
  '',
];

const foreignProtocols = [
  'GET / HTTP/1.0\r\n\r\n',
  'SSH-2.0-OpenSSH_9.2\r\n',
  '\u0016\u0003\u0001\u0000\u00a5\u0001\u0000\u0000\u00a1\u0003\u0003',
  '\u00c1\u00c1\u00c1\u00c1\u00c1\u00c1\u00c1\u00c1\u00c1\u00c1\u00c1\u00c1',
];

// These tests run serially, because each master has worker threads for RSA.
for (const wire of WIRES) {
  test.serial(`over ${wire}, requests with arbitrary ids leave no data behind`, async (t) => {
    const site = await startSite(t, wire);
    const changes = await site.changesBy(async () => {
      for (const id of craftedIds) {
        await site.door.ask(signIn({ id }));
        await site.door.ask(requestBy({ ...hostile, id: String(id) }, { cmd: '_master_opts' }));
        await site.door.ask(oldRequest({ cmd: '_pillar', id, grains: {} }));
      }
      for (const id of ['nobody', 'Vecminion']) {
        await site.door.ask(requestBy({ ...hostile, id }, { cmd: '_master_opts' }));
      }
    });
    t.deepEqual(changes, []);
    await signInsAreTaken(t, site);
  });

  test.serial(
    `over ${wire}, only sign-ins and pings are processed without encryption`,
    async (t) => {
      const site = await startSite(t, wire);
      const asked = { tgt: '*', fun: 'test.ping', tag: 'forged', id: keys.minionId, key: 'x' };
      const changes = await site.changesBy(async () => {
        const events = await site.operator.eventsDuring(async () => {
          for (const cmd of clearCommands) {
            for (const version of [0, 2, 3] as const) {
              const load = { cmd, ...asked, arg: [], nonce: freshNonce() };
              const request = encodeRequest({ enc: 'clear', version, load });
              t.false((await site.door.ask(request)).includes(SECRET), cmd);
            }
          }
        });
        t.deepEqual(events, []);
      });
      t.deepEqual(changes, []);
      const counters = await site.operator.counters();
      t.is(counters['unknown-clear-cmd'], clearCommands.length * 3);
      const ping = { cmd: 'ping', echo: 'x' };
      const reply = await site.door.ask(encodeRequest({ enc: 'clear', version: 0, load: ping }));
      t.like(unpackWire(reply), ping);
    },
  );

  test.serial(
    `over ${wire}, a wrong key for a known id does not affect the owner of the id`,
    async (t) => {
      const site = await startSite(t, wire);
      const changes = await site.changesBy(async () => {
        const nonce = freshNonce();
        const forged = signIn({ id: VICTIM, pub: pem('minion2').publicPem, nonce });
        const answer = signedAnswer(t, await site.door.ask(forged));
        t.deepEqual({ ...answer }, { ret: false, nonce });
      });
      t.deepEqual(
        changes.filter((name) => name !== 'pki'),
        [`pki/minions_denied/${VICTIM}`],
      );
      await bothAreHeard(t, site);
    },
  );

  test.serial(`over ${wire}, weak and missing keys are not stored`, async (t) => {
    const site = await startSite(t, wire);
    const changes = await site.changesBy(async () => {
      for (const pub of [...weakKeys(), 'no key', pem('minion2').publicPem.slice(0, 200)]) {
        const answer = await site.door.ask(signIn({ id: 'newcomer', pub }));
        t.is(signedAnswer(t, answer).ret, false);
      }
      t.is(unpackWire(await site.door.ask(signIn({ id: 'newcomer', pub: '' }))), 'bad load');
    });
    t.deepEqual(changes, []);
    await signInsAreTaken(t, site);
  });

  test.serial(
    `over ${wire}, the only input of a stranger that the master signs is 32 hex digits`,
    async (t) => {
      const { door } = await startSite(t, wire);
      const publication = packWire({ enc: 'aes', load: 'forged' }).toString('latin1');
      for (const nonce of [publication, '', `${keys.nonce}0`, keys.nonce.toUpperCase(), 7, null]) {
        for (const id of [keys.minionId, 'stranger', '../x']) {
          t.is(unpackWire(await door.ask(signIn({ nonce, id }))), 'bad load');
        }
      }
      const nonce = freshNonce();
      t.is(signedAnswer(t, await door.ask(signIn({ nonce }))).nonce, nonce);
    },
  );

  test.serial(`over ${wire}, unknown versions and algorithms get no key`, async (t) => {
    const site = await startSite(t, wire);
    for (const version of [-1, 4, 99, 2.5, '3', null, [3], 2n ** 63n]) {
      noKeyIn(t, await site.door.ask(signIn({}, { version })));
    }
    for (const name of ['', 'none', 'constructor', '__proto__', 'OAEP-MD5', 7, ['OAEP-SHA1']]) {
      noKeyIn(t, await site.door.ask(signIn({ enc_algo: name })));
      noKeyIn(t, await site.door.ask(signIn({ sig_algo: name })));
    }
    await signInsAreTaken(t, site);
  });

  test.serial(`over ${wire}, a malformed sign-in fails only its own request`, async (t) => {
    const site = await startSite(t, wire);
    const odd: WireValue[] = [null, 7, true, [], {}, [[[[]]]], 'x'.repeat(20_000), -1];
    for (const field of ['cmd', 'id', 'pub', 'nonce', 'token', 'enc_algo', 'sig_algo']) {
      for (const value of [...odd, undefined]) await site.door.ask(signIn({ [field]: value }));
    }
    for (const bytes of ['c0', '90', '80', 'a0', '81a3656e63a5636c656172']) {
      await site.door.ask(Buffer.from(bytes, 'hex'));
    }
    for (let turn = 0; turn < 4; turn += 1) await bothAreHeard(t, site);
  });

  test.serial(`over ${wire}, a listener without a key cannot read any part of a job`, async (t) => {
    const { operator, publishPort } = await startSite(t, wire);
    const next = await listen(t, wire, publishPort);
    await untilHeard(operator);
    const job = { tgt: '*', fun: 'test.echo', arg: [SECRET], timeoutSeconds: 0.1 };
    for await (const _update of operator.master.jobs.run(job)) break;
    const publication = await next();
    t.deepEqual(Object.keys(publication).sort(), ['enc', 'load', 'sig', 'sig_algo']);
    const packed = packWire(publication);
    for (const word of [SECRET, 'test.echo']) t.false(packed.includes(word), word);
    const [blob, sig] = [wireBytes(publication.load), wireBytes(publication.sig)];
    if (blob === undefined || sig === undefined) return t.fail('not signed');
    t.true(rsaVerify(masterKey, blob, sig, 'PKCS1v15-SHA1'));
  });

  test.serial(
    `over ${wire}, both ports close a connection with another protocol at once`,
    async (t) => {
      const site = await startSite(t, wire);
      for (const port of [site.requestPort, site.publishPort]) {
        for (const words of foreignProtocols) {
          const peer = await connectRaw(t, port);
          peer.write(Buffer.from(words, 'latin1'));
          peer.socket.end();
          await peer.closed(JSON.stringify(words));
          t.false(peer.received.includes(SECRET));
        }
      }
      await bothAreHeard(t, site);
    },
  );

  test.serial(`over ${wire}, a stolen token is useless without the session key`, async (t) => {
    const site = await startSite(t, wire);
    const events = await site.operator.eventsDuring(async () => {
      for (const key of [hostile.key, victimsGuess]) {
        const forged = requestBy({ ...victim, key }, { cmd: '_minion_event', tag: 'minion_start' });
        t.is(unpackWire(await site.door.ask(forged)), 'bad load');
      }
    });
    t.deepEqual(events, []);
    await bothAreHeard(t, site);
  });
}

/** A session key that no minion has. */
const victimsGuess = { ...victim.key, hmac: new HmacKey(Buffer.alloc(32, 1)) };

async function untilHeard({ master }: Site['operator']): Promise<void> {
  const end = performance.now() + 10_000;
  while ((await master.status()).subscribers === 0) {
    if (performance.now() > end) throw new Error('waited 10 s for the listener');
    await new Promise(setImmediate);
  }
}

function noKeyIn(t: ExecutionContext, reply: Uint8Array): void {
  const value = unpackWire(reply);
  t.false(isWireMap(value) && 'aes' in value);
  if (!isWireMap(value)) return;
  const load = isWireMap(value.load) ? value.load : {};
  t.false('aes' in load);
  t.is(value.sig, undefined, 'nor is it signed');
}

/** Returns public keys that are too weak for a minion. */
function weakKeys(): string[] {
  const pemOf = { type: 'spki', format: 'pem' } as const;
  const short = createPublicKey(rsaPair(0, 1024).publicPem);
  const exponent = generateKeyPairSync('rsa', { modulusLength: 2048, publicExponent: 3 }).publicKey;
  const curve = generateKeyPairSync('ed25519').publicKey;
  return [short, exponent, curve].map((key) => String(key.export(pemOf)));
}

function without(map: Load): WireMap {
  const result: WireMap = {};
  for (const [name, value] of Object.entries(map)) if (value !== undefined) result[name] = value;
  return result;
}

function asMap(value: WireValue): WireMap {
  if (!isWireMap(value)) throw new TypeError('not a map');
  return value;
}
