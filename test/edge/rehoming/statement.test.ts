/** Statements about the next centre: their form, their signatures, and refusals by name. */

import test from 'ava';
import {
  cosignStatement,
  createSigningKey,
  type NextCentre,
  readStatement,
  type Statement,
} from '#edge';
import { maxSignerAheadMs, verifyStatement } from '#edge/rehoming/statement.ts';
import { createRepository, dayMs } from '../bundles/tuf-stage.ts';
import { statementOf } from './rehoming-stage.ts';

const now = 1_800_000_000_000;

async function stage() {
  const clock = { now };
  const centre = await createRepository('centre-1', clock);
  const next = await createRepository('centre-2', clock);
  const rootOf = async ({ repository }: typeof centre): Promise<Uint8Array> => {
    const root = await repository.root();
    if (root === undefined) throw new Error('the repository has no root');
    return root;
  };
  const to: NextCentre = {
    id: 'centre-2',
    key: 'A'.repeat(43),
    root: Buffer.from(await rootOf(next)).toString('base64'),
    addresses: ['https://next.example.org:8000'],
    behindProxy: false,
  };
  const two = centre.root.slice(0, 2);
  const text = (changed: Partial<Statement> = {}, signers = two): string =>
    statementOf(to, signers, { issuedAt: now, expiresAt: now + dayMs, ...changed });
  const verify = async (statement: string, changed: object = {}): Promise<Statement> =>
    verifyStatement(statement, {
      root: await rootOf(centre),
      now,
      site: 'north',
      known: undefined,
      floor: 0,
      ...changed,
    });
  return { centre, to, two, text, verify };
}

test('a statement is accepted if enough root keys have signed it', async (t) => {
  const { centre, two, text, verify } = await stage();
  t.like(await verify(text()), { centre: 'centre-1', sites: ['north'] });
  t.like(await verify(text({ sites: ['south', 'no*'] })), { sites: ['south', 'no*'] });
  const [first, second] = two;
  if (first === undefined || second === undefined) throw new Error('two keys');
  const single = text({}, [first]);
  t.like(await verify(cosignStatement(single, [second], now)), { centre: 'centre-1' });
  t.is(readStatement(cosignStatement(text(), two, now)).signers.length, 2);
  t.like(await verify(text({}, centre.root)), { centre: 'centre-1' });
});

test('a statement that too few root keys have signed is refused', async (t) => {
  const { centre, two, text, verify } = await stage();
  const [first] = two;
  if (first === undefined) throw new Error('a key');
  const strangers = [createSigningKey(), createSigningKey()];
  const twice = cosignStatement(text({}, [first]), [first], now);
  for (const bad of [
    text({}, []),
    text({}, [first]),
    twice,
    text({}, strangers),
    text({}, [first, centre.targets]),
  ]) {
    await t.throwsAsync(verify(bad), { code: 'ERR_REHOME_KEYS' });
  }
});

test('an altered or malformed statement is refused', async (t) => {
  const { text, to, verify } = await stage();
  const [head = '', body = '', signatures = ''] = text().split('.');
  const content: Statement = JSON.parse(Buffer.from(body, 'base64url').toString());
  const rewritten = (changed: object): string =>
    [
      head,
      Buffer.from(JSON.stringify({ ...content, ...changed })).toString('base64url'),
      signatures,
    ].join('.');
  const forged = [
    rewritten({ sites: ['*'] }),
    rewritten({ expiresAt: now + 2 * dayMs }),
    rewritten({ afterSeconds: 1 }),
    rewritten({ to: { ...to, addresses: ['https://thief.example.org'] } }),
    rewritten({ to: { ...to, key: 'B'.repeat(43) } }),
    rewritten({ more: 1 }),
    rewritten({ to: { ...to, addresses: ['http://next.example.org'] } }),
    [head, body, signatures.slice(0, -8)].join('.'),
    `x${text()}`,
    [head, '', signatures].join('.'),
    `${text()}.more`,
    '',
    'x'.repeat(70_000),
  ];
  for (const bad of forged) {
    await t.throwsAsync(verify(bad), { code: 'ERR_REHOME_STATEMENT' }, bad.slice(0, 40));
  }
});

test('a statement of another centre is refused', async (t) => {
  const { text, verify } = await stage();
  await t.throwsAsync(verify(text({ centre: 'centre-2' })), { code: 'ERR_REHOME_CENTRE' });
});

test('a statement for other sites is refused', async (t) => {
  const { text, verify } = await stage();
  for (const sites of [['south'], ['nort'], ['northern', 's*']]) {
    await t.throwsAsync(verify(text({ sites })), { code: 'ERR_REHOME_SITE' });
  }
});

test('a statement that has expired, or is from the future, is refused', async (t) => {
  const { text, verify } = await stage();
  const expired = text({ issuedAt: now - 2 * dayMs, expiresAt: now - 1 });
  await t.throwsAsync(verify(expired), { code: 'ERR_REHOME_EXPIRED' });
  const future = text({ issuedAt: now + 2 * dayMs, expiresAt: now + 3 * dayMs });
  await t.throwsAsync(verify(future), { code: 'ERR_REHOME_EXPIRED' });
});

test('a statement that is not later than the accepted one is refused', async (t) => {
  const { text, verify } = await stage();
  const known = text();
  const earlier = text({ issuedAt: now - 1 });
  const sameTime = text({ afterSeconds: 5 });
  for (const bad of [earlier, sameTime]) {
    await t.throwsAsync(verify(bad, { known, floor: now }), { code: 'ERR_REHOME_OLD' });
  }
  t.like(await verify(known, { known, floor: now }), { issuedAt: now });
});

test('a statement that was signed while clocks were ahead does not prevent later ones', async (t) => {
  const { text, verify } = await stage();
  const floor = now + 300 * dayMs;
  const known = text({ issuedAt: floor, expiresAt: floor + dayMs });
  const corrected = { known, floor, correctedAt: now - 1000 };
  t.like(await verify(text(), corrected), { issuedAt: now });
  const old = { code: 'ERR_REHOME_OLD' };
  const before = text({ issuedAt: now - 2 * dayMs });
  await t.throwsAsync(verify(before, corrected), old);
  await t.throwsAsync(verify(known, corrected), { code: 'ERR_REHOME_EXPIRED' });
  // Without a correction, the floor is valid. After a correction, a floor that is not ahead is too.
  await t.throwsAsync(verify(text(), { ...corrected, correctedAt: 0 }), old);
  await t.throwsAsync(verify(text(), { ...corrected, floor: now + dayMs }), old);
});

test('a statement that is an hour ahead gets no further signature, and is not published', async (t) => {
  const { two, text, verify } = await stage();
  const hourMs = 3_600_000;
  const ahead = text({ issuedAt: now + hourMs + 1 });
  const expected = {
    code: 'ERR_REHOME_EXPIRED',
    message: /correct the clock of the machine that has signed it, and sign a new statement$/,
  };
  t.throws(() => cosignStatement(ahead, two, now), expected);
  await t.throwsAsync(verify(ahead, { aheadMs: maxSignerAheadMs }), expected);
  const withinHour = text({ issuedAt: now + hourMs });
  t.is(cosignStatement(withinHour, two, now), withinHour);
  t.like(await verify(withinHour, { aheadMs: maxSignerAheadMs }), { issuedAt: now + hourMs });
});

test('a statement whose root is not that of the next centre is refused', async (t) => {
  const { to, two, verify } = await stage();
  const times = { issuedAt: now, expiresAt: now + dayMs };
  for (const bad of [
    { ...to, id: 'centre-3' },
    { ...to, root: 'AAAA' },
  ]) {
    await t.throwsAsync(verify(statementOf(bad, two, times)), { code: 'ERR_REHOME_STATEMENT' });
  }
});

test('the signatures of replaced root keys do not count any more', async (t) => {
  const { centre, text, verify } = await stage();
  const before = text();
  const fresh = [createSigningKey(), createSigningKey(), createSigningKey()];
  await centre.rotate(fresh, [...centre.root, ...fresh]);
  await t.throwsAsync(verify(before), { code: 'ERR_REHOME_KEYS' });
  t.like(await verify(text({}, fresh)), { centre: 'centre-1' });
});
