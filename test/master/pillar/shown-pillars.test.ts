/** The runners `pillar.show_pillar` and `pillar.show_top`, which compile pillars for users. */

import test from 'ava';
import type { AuditRequester } from '#master';
import type { WireMap, WireValue } from '#minion-protocol';
import { pillarRunner } from '#salt/pillar/pillar-runner.ts';
import type { PillarSource } from '#salt/render/pillar-source.ts';

const userOf = (name: string): AuditRequester => ({
  who: { kind: 'user', name, eauth: 'pam' },
  rule: 'r',
});

/** Runners over a source that compiles no pillar until `finish` is called. */
function pausedRunners() {
  const started: string[] = [];
  const { promise: end, resolve: finish } = Promise.withResolvers<void>();
  const note = async (id: string): Promise<void> => {
    started.push(id);
    await end;
  };
  const source: PillarSource = {
    provide: async ({ id }) => {
      await note(id);
      return { pillar: {}, proven: {} };
    },
    compile: async ({ id }) => {
      await note(id);
      return { pillar: new Map(), errors: [], failures: [], layers: [], matches: new Map() };
    },
  };
  const facts = { of: () => ({ grains: undefined, pillar: undefined }) };
  const table = pillarRunner({ pillar: source, facts, firstId: () => 'web1' });
  const call = async (
    fun: string,
    kwarg: WireMap,
    by: AuditRequester | undefined,
  ): Promise<WireValue | undefined> =>
    table[fun]?.bind(
      [],
      kwarg,
    )({
      ...{ jid: '1', user: 'u', by, timeoutSeconds: undefined, emit: () => {} },
      closing: new AbortController().signal,
      asked: { fun, arg: [], kwarg },
      continueElsewhere: () => {},
      atEnd: () => {},
    });
  return { started, finish, call };
}

test('a user compiles one pillar at a time, whatever minions the calls name', async (t) => {
  for (const fun of ['pillar.show_pillar', 'pillar.show_top']) {
    const { started, finish, call } = pausedRunners();
    const calls = [
      ...Array.from({ length: 5 }, (_, at) => call(fun, { minion: `eve${at}` }, userOf('eve'))),
      call(fun, { minion: 'of-bob' }, userOf('bob')),
      call(fun, { minion: 'of-operator' }, undefined),
      call(fun, { minion: 'of-operator' }, undefined),
    ];
    t.deepEqual(started, ['eve0', 'of-bob', 'of-operator', 'of-operator'], fun);
    finish();
    await Promise.all(calls);
    t.is(started.length, 8);
  }
});

test('calls beyond the waiting ones of a user are rejected', async (t) => {
  const { finish, call } = pausedRunners();
  const show = (name: string): Promise<WireValue | undefined> =>
    call('pillar.show_pillar', { minion: 'x' }, userOf(name));
  const calls = Array.from({ length: 65 }, () => show('eve'));
  await t.throwsAsync(show('eve'), { code: 'ERR_LIMIT' });
  calls.push(show('bob'));
  finish();
  await t.notThrowsAsync(Promise.all(calls));
});
