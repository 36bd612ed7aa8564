/** Signed returns (`minion_sign_messages`), in the forms of all releases. */
import test, { type ExecutionContext } from 'ava';
import type { MasterOptions } from '#config';
import {
  packLocal,
  packWire,
  parsePrivateKey,
  rsaSign,
  type SigningAlgorithm,
  type WireMap,
  type WireValue,
} from '#minion-protocol';
import { startVectorMaster, type VectorMaster } from '../../helpers/vector-master.ts';
import { altered, freshNonce, loadOf, openReply, recorded } from '../../helpers/vector-requests.ts';
import { keys, pem } from '../../helpers/vectors.ts';

const { minionId } = keys;
const ofVersion3 = recorded('return', 'standalone job, jid req v3');
const ofVersion0 = recorded('return', 'standalone job, jid req v0');

/** Values whose packed form differs between signing and sending. */
const values: WireMap = {
  long: 'x'.repeat(40),
  longer: 'é'.repeat(300),
  huge: 'y'.repeat(70_000),
  bytes: Buffer.from([0xff, 0xfe, 0x00]),
  moreBytes: Buffer.alloc(300, 0xff),
  numbers: [1.5, -1, 300, 2n ** 63n, null, true],
  ofNumbers: new Map<WireValue, WireValue>([[7, 'seven']]),
};

async function start(t: ExecutionContext, config: Partial<MasterOptions> = {}) {
  return startVectorMaster(t, {
    keys: [
      { directory: 'minions', id: minionId, publicPem: pem('minion').publicPem },
      { directory: 'minions', id: 'other', publicPem: pem('other_minion').publicPem },
    ],
    config,
  });
}

interface Form {
  /** Fields that are sent but not signed. */
  readonly without: readonly string[];
  readonly pack?: (value: WireValue) => Uint8Array;
  readonly algorithm?: SigningAlgorithm;
  readonly key?: 'minion' | 'other_minion';
}

const former: Form = { without: ['ts', '_stamp', 'nonce', 'tok'] };
const recent: Form = { without: ['nonce', 'tok'] };

/**
 * Returns the fields of a signed return. The signature is over the load that {@link altered} sends.
 */
function signed(load: WireMap, { without, pack, algorithm, key }: Form): WireMap {
  const names = Object.keys(load).filter((name) => !without.includes(name));
  const part = Object.fromEntries(names.map((name) => [name, load[name] ?? null]));
  const privateKey = parsePrivateKey(pem(key ?? 'minion').privatePem);
  const signature = rsaSign(privateKey, (pack ?? packLocal)(part), algorithm ?? 'PKCS1v15-SHA1');
  return { ...load, sig: signature };
}

function load(vector: typeof ofVersion3, more: WireMap = {}): WireMap {
  return { ...loadOf(vector), _stamp: '2026-01-01T00:00:00.000001', ...more, nonce: freshNonce() };
}

/** Whether the return was accepted. The reply to a rejected one is `false`. */
async function isTaken(
  master: VectorMaster,
  vector: typeof ofVersion3,
  sent: WireMap,
): Promise<boolean> {
  let value: WireValue = null;
  const events = await master.eventsDuring(async () => {
    value = openReply(
      vector,
      await master.ask(altered(vector, { load: sent })),
      String(sent.nonce),
    );
  });
  const told = events.some(({ tag }) => /^salt\/job\/\d+\/ret\//.test(tag));
  if (told === (value === false)) throw new Error('told and refused, or neither');
  return told;
}

const both = { requireMinionSignMessages: true, dropMessagesSignatureFail: true } as const;

for (const [name, form] of Object.entries({
  'before 3006.26': former,
  'since 3006.26': recent,
  'since 3006.26 with SHA-224': { ...recent, algorithm: 'PKCS1v15-SHA224' },
  'of an old MessagePack': { ...former, pack: packWire },
} satisfies Record<string, Form>)) {
  test(`a return signed like by minions ${name} is accepted, and refused if it was changed`, async (t) => {
    const master = await start(t, both);
    const good = signed(load(ofVersion3, { return: values }), form);
    t.true(await isTaken(master, ofVersion3, good));
    const changed = { ...good, nonce: freshNonce(), retcode: 1 };
    t.false(await isTaken(master, ofVersion3, changed));
    t.is((await master.counters())['return-signature'], 1);
  });
}

test('a return without a signature is refused if one is required', async (t) => {
  const master = await start(t, { requireMinionSignMessages: true });
  t.false(await isTaken(master, ofVersion3, load(ofVersion3)));
  t.is((await master.counters())['return-unsigned'], 1);
  t.true(await isTaken(master, ofVersion3, { ...load(ofVersion3), sig: Buffer.alloc(256, 0xff) }));
  t.is((await master.counters())['return-signature'], 1);
});

test('a wrong signature is refused if verification is required, and a missing one is accepted', async (t) => {
  const master = await start(t, { dropMessagesSignatureFail: true });
  t.true(await isTaken(master, ofVersion3, load(ofVersion3)));
  for (const sig of ['text', '', Buffer.alloc(256, 0xff), Buffer.alloc(100_000, 0xff)]) {
    t.false(await isTaken(master, ofVersion3, { ...load(ofVersion3), sig }));
  }
});

test('without these options a wrong signature is only counted', async (t) => {
  const master = await start(t);
  t.true(await isTaken(master, ofVersion3, { ...load(ofVersion3), sig: 'text' }));
  t.is((await master.counters())['return-signature'], 1);
});

test('the shared key of old protocols does not let a minion return for another', async (t) => {
  const master = await start(t, both);
  t.false(await isTaken(master, ofVersion0, load(ofVersion0)));
  const forged = signed(load(ofVersion0), { ...former, key: 'other_minion' });
  t.false(await isTaken(master, ofVersion0, forged));
  t.true(await isTaken(master, ofVersion0, signed(load(ofVersion0), former)));
});
