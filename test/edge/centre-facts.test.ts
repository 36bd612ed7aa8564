/** Facts of sites in the store of the centre: what is read, and how much a site may store. */

import test from 'ava';
import { CentreFacts, type CentreFactsOptions } from '#edge/facts/centre-facts.ts';
import { MinionClaims } from '#edge/facts/minion-claims.ts';
import { edgeLimits } from '#edge/limits.ts';
import { handleSignals } from '#edge/log/centre-signals.ts';
import type { LogEntry, LogEntryHandler } from '#edge/log/log.ts';
import type { CentreContext } from '#edge/parts.ts';
import type { StateOperation } from '#master';

/** Rows of a store that counts the rows that were read. */
class Rows {
  readonly #rows = new Map<string, Uint8Array>();
  read = 0;

  readonly shared = {
    get: async (key: readonly string[]) => {
      const value = this.#rows.get(JSON.stringify(key));
      if (value === undefined) return undefined;
      this.read += 1;
      return { key, value };
    },
    list: (prefix: readonly string[]) => this.#list(prefix),
    follow: async () => {},
    write: async (operations: readonly StateOperation[]) => this.apply(operations),
  };

  apply(operations: readonly StateOperation[]): void {
    for (const operation of operations) {
      if (operation.op === 'delete-prefix') throw new TypeError('not used by facts');
      const name = JSON.stringify(operation.key);
      if (operation.op === 'put') this.#rows.set(name, operation.value);
      else this.#rows.delete(name);
    }
  }

  async *#list(prefix: readonly string[]) {
    for (const [name, value] of this.#rows) {
      const key: string[] = JSON.parse(name);
      if (!prefix.every((part, index) => key[index] === part)) continue;
      this.read += 1;
      yield { key, value };
    }
  }
}

async function stage() {
  const rows = new Rows();
  const admission = { keyOf: (id: string) => (id === 'master1' ? {} : undefined) };
  const host = { ...rows, now: () => 1000, admission, find: () => undefined };
  // The parts of the host that facts and claims use.
  const claims = await MinionClaims.open(
    host as unknown as Parameters<typeof MinionClaims.open>[0],
  );
  let merge: LogEntryHandler['operations'];
  const facts = await CentreFacts.open({
    host,
    claims,
    options: { factAheadSeconds: 60 },
    ingest: { on: (_kind: string, handler: LogEntryHandler) => (merge = handler.operations) },
  } as unknown as CentreFactsOptions);
  const report = async (
    site: string,
    minion: string,
    grains: object | null = {},
    ms = 1,
  ): Promise<void> => {
    const value = { minion, present: true, grains };
    rows.apply((await merge?.({ site, value, at: { ms, count: 0 } } as unknown as LogEntry)) ?? []);
  };
  return { rows, claims, facts, report };
}

test('facts of some sites are read without the rows of other sites', async (t) => {
  const { rows, claims, facts, report } = await stage();
  for (const site of ['north', 'south', 'west', 'east']) {
    for (let index = 0; index < 10; index += 1) await report(site, `${site}-${index}`);
  }
  rows.read = 0;
  t.is((await facts.ofSites(['north'])).size, 10);
  t.is((await Array.fromAsync(facts.list('south'))).length, 10);
  t.is(rows.read, 20);
  t.is((await facts.ofSites(claims.sites)).size, 40);
  t.is((await Array.fromAsync(facts.list())).length, 40);
  t.is(rows.read, 100);
  t.is((await facts.ofSites(['unknown'])).size, 0);
  t.is(rows.read, 100);
});

test('the facts of a site have a maximum size', async (t) => {
  const { claims, report } = await stage();
  const most = edgeLimits.factBytes.perOwner ?? 0;
  const text = { text: 'x'.repeat(16_000) };
  const refused = { code: 'ERR_SITE_MESSAGE', message: /facts of the site would exceed/ };
  let stored = 0;
  const fill = async (): Promise<void> => {
    for (; stored < 4000; stored += 1) await report('north', `n${stored}`, text);
  };
  await t.throwsAsync(fill(), refused);
  t.true(stored * 16_000 <= most);
  // Smaller facts, and facts of other sites, are accepted.
  await report('north', 'n0', {}, 2);
  await report('north', 'last', text, 2);
  await t.throwsAsync(report('north', 'n0', text, 3), refused);
  await report('south', 's0', text);
  t.is(claims.minionsOf('south').length, 1);
  await claims.release('north');
  await report('north', 'n0', text, 4);
});

test('the values in grains count towards the size of the facts, and have a maximum number', async (t) => {
  const { report } = await stage();
  const mapsOf = (count: number): object => ({ list: Array.from({ length: count }, () => ({})) });
  await t.throwsAsync(report('north', 'n0', mapsOf(16_000)), { message: /more than 1024 values/ });
  const refused = { code: 'ERR_SITE_MESSAGE', message: /facts of the site would exceed/ };
  let stored = 0;
  const fill = async (): Promise<void> => {
    for (; stored < 4000; stored += 1) await report('north', `n${stored}`, mapsOf(1000));
  };
  await t.throwsAsync(fill(), refused);
  t.true(stored * 32_000 <= (edgeLimits.factBytes.perOwner ?? 0));
});

test('the facts of a minion stay in memory as bytes, not as values', async (t) => {
  const { facts, report } = await stage();
  const grains = { os: 'Debian' };
  await report('north', 'web1', grains);
  grains.os = 'changed';
  // These facts contain no grains, so the minion keeps the grains in memory.
  await report('north', 'web1', null, 2);
  t.like(await facts.of('web1'), { grains: { os: 'Debian' }, at: { ms: 2 } });
});

test('facts are read and decoded one by one when they are listed', async (t) => {
  const { rows, facts, report } = await stage();
  for (let index = 0; index < 10; index += 1) await report('north', `n${index}`);
  for (const site of ['north', undefined]) {
    rows.read = 0;
    const listed = facts.list(site);
    t.like(await listed.next(), { value: { minion: 'n0' } });
    t.is(rows.read, 1);
    await listed.return(undefined);
  }
});

test('a site does not learn whether the centre or another site has a minion', async (t) => {
  const { report } = await stage();
  await report('north', 'web1');
  const errors = await Promise.all(
    ['web1', 'master1'].map(async (id) => {
      const error = await t.throwsAsync(report('south', id), { code: 'ERR_SITE_MESSAGE' });
      return error?.message.replace(id, 'ID');
    }),
  );
  t.is(errors[0], errors[1]);
});

test('facts that are refused do not claim a minion', async (t) => {
  const { claims, report } = await stage();
  const large = { text: 'x'.repeat(20_000) };
  await t.throwsAsync(report('south', 'web1', large), { message: /are too large/ });
  t.is(claims.siteOf('web1'), undefined);
  await report('north', 'web1');
  t.is(claims.siteOf('web1'), 'north');
});

test('signals that are refused do not claim a minion', async (t) => {
  const { claims } = await stage();
  let operations: LogEntryHandler['operations'];
  const results = [{ kind: 'refused', reason: 'the quota is full' }, { kind: 'accepted' }];
  // The parts of the centre that the handler uses.
  handleSignals({
    host: { find: () => ({ intake: { acceptEvent: async () => results.shift() } }) },
    ingest: { on: (_kind: string, handler: LogEntryHandler) => (operations = handler.operations) },
    claims,
  } as unknown as CentreContext);
  const send = async (site: string): Promise<unknown> => {
    const value = { id: '1', tag: 'a', minion: 'web1', data: {} };
    return operations?.({ site, value, at: { ms: 1, count: 0 } } as unknown as LogEntry);
  };
  await t.throwsAsync(send('south'), { code: 'ERR_SITE_MESSAGE', message: /the quota is full/ });
  t.is(claims.siteOf('web1'), undefined);
  await send('north');
  t.is(claims.siteOf('web1'), 'north');
});
