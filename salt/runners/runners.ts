/** The runners. A new one is an entry of a table that is joined here. */

import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { type KeysApi, MasterError, version } from '#master/api/index.ts';
import type { Auth } from '#master/auth/index.ts';
import type { MasterContext } from '#master/context/index.ts';
import type { EventBus } from '#master/events/index.ts';
import type { Jobs, KnownFacts } from '#master/jobs/index.ts';
import { AuthenticationError, type Users } from '#master/users/index.ts';
import { isWireMap, type WireMap, type WireValue } from '#minion-protocol';
import type { FileServer, Files } from '../files/index.ts';
import { isSuccess } from '../orchestrate/low-chunk.ts';
import type { OrchestrationRequest, Orchestrator } from '../orchestrate/orchestrator.ts';
import {
  compiledOf,
  fromWire,
  type GitPillarUpdater,
  isPillarMap,
  type MineReader,
  type MinionData,
  type PillarMap,
  type PillarSource,
  pillarRequestOf,
} from '../pillar/index.ts';
import { CacheBanks } from './cache-banks.ts';
import { cacheRunner } from './cache-runner.ts';
import {
  anything,
  type FunctionTable,
  flag,
  ignored,
  type MasterFunction,
  map,
  masterFunction,
  names,
  optional,
  required,
  seconds,
  target,
  text,
} from './caller.ts';
import { fileserverRunner } from './fileserver-runner.ts';
import { jobsRunner } from './jobs-runner.ts';
import { manageRunner } from './manage-runner.ts';
import { askMinions, type MinionCalls } from './minion-calls.ts';

// The `auth` runner [salt/runners/auth.py].

interface AuthRunnerDeps {
  readonly users: Users;
}

/** The runner about log-ins. */
export function authRunner({ users: { logins } }: AuthRunnerDeps): FunctionTable {
  return {
    'auth.mk_token': masterFunction({
      summary: 'Makes a token for whoever the credentials belong to; nothing where to nobody.',
      parameters: {
        username: required(text),
        password: required(text),
        eauth: required(text),
        token_expire: optional(seconds),
      },
      isConfidential: true,
      call: async ({ username, password, eauth, token_expire: tokenExpireSeconds }, { by }) => {
        const request = {
          ...{ username, password, eauth },
          ...(tokenExpireSeconds === undefined ? {} : { tokenExpireSeconds }),
          // Users call it from elsewhere: their failures count together, and api_acl holds.
          ...(by === undefined ? {} : { source: 'runner' }),
        };
        try {
          const { user, groups, start, expire, token } = await logins.login(request);
          const times = { start: start / 1000, expire: expire / 1000 };
          const known = groups.length === 0 ? {} : { groups: [...groups] };
          return { token, ...times, name: user, eauth, ...known };
        } catch (error) {
          if (error instanceof AuthenticationError && error.code === 'ERR_EAUTH') return {};
          throw error;
        }
      },
    }),
    'auth.del_token': masterFunction({
      summary: 'Ends a token.',
      parameters: { token: required(text) },
      isConfidential: true,
      call: ({ token }) => logins.logout(token),
    }),
  };
}

// The `doc` runner [salt/runners/doc.py].

/** What the functions of a kind are for, by name. */
type Docs = (prefix?: string) => WireMap;

interface DocRunnerDeps extends MinionCalls {
  readonly docs: { readonly runner: Docs; readonly wheel: Docs };
}

export function docRunner(parts: DocRunnerDeps): FunctionTable {
  const { docs } = parts;
  const parameters = { name: optional(text) };
  return {
    'doc.runner': masterFunction({
      summary: 'What the runners are for: all of them, those of a module, or one.',
      parameters,
      call: ({ name }) => docs.runner(name),
    }),
    'doc.wheel': masterFunction({
      summary: 'What the wheel functions are for: all of them, those of a module, or one.',
      parameters,
      call: ({ name }) => docs.wheel(name),
    }),
    'doc.execution': masterFunction({
      summary: 'What the functions of minions are for, as all of them together say.',
      parameters: {},
      call: async (_values, context) => {
        const { returns } = await askMinions(parts, { tgt: '*', fun: 'sys.doc' }, context);
        const texts: WireMap = Object.create(null);
        for (const { return: said } of returns) if (isWireMap(said)) Object.assign(texts, said);
        return texts;
      },
    }),
  };
}

// The `event` runner [salt/runners/event.py].

export function eventRunner({ bus }: { readonly bus: EventBus }): FunctionTable {
  return {
    'event.send': masterFunction({
      summary: 'Fires an event on the master.',
      parameters: { tag: required(text), data: optional(map) },
      call: ({ tag, data = {} }) => {
        bus.fire(tag, data);
        return true;
      },
    }),
  };
}

// The `git_pillar` runner [salt/runners/git_pillar.py].

interface GitPillarRunnerDeps {
  readonly updater: GitPillarUpdater;
}

function gitPillarRunner({ updater }: GitPillarRunnerDeps): FunctionTable {
  return {
    'git_pillar.update': masterFunction({
      summary: 'Fetches remotes of git_pillar; true where something has changed.',
      parameters: { branch: optional(text), repo: optional(text) },
      call: async (wanted) => {
        const results = await updater.update(wanted);
        if (results.size === 0) {
          throw new MasterError('ERR_ARGS', 'ext_pillar names no such remote of git');
        }
        const failures = [...results.values()].filter((result) => result instanceof Error);
        const [first] = failures;
        if (first !== undefined) throw first;
        // Nothing where nothing has changed, as in Salt.
        return Object.fromEntries(
          [...results].map(([id, result]) => [id, result === true ? true : null]),
        );
      },
    }),
  };
}

// The `mine` runner [salt/runners/mine.py].

interface MineRunnerDeps extends MinionCalls {
  readonly mineReader: MineReader;
}

function mineRunner(parts: MineRunnerDeps): FunctionTable {
  return {
    'mine.get': masterFunction({
      summary: 'What minions have in the mine under a function, or several with commas between.',
      parameters: { tgt: required(target), fun: required(text), tgt_type: optional(text, 'glob') },
      call: async ({ tgt, fun, tgt_type: tgtType }) => {
        const query = { target: { tgt, tgtType }, funs: fun.split(','), isByFunction: false };
        const answer = await parts.mineReader.read(undefined, query);
        if (answer.ok) return answer.value;
        throw new MasterError('ERR_ARGS', `the mine was not read: ${answer.reason}`);
      },
    }),
    'mine.update': masterFunction({
      summary: 'Makes minions renew what they have in the mine.',
      parameters: {
        tgt: required(target),
        tgt_type: optional(text, 'glob'),
        clear: optional(flag, false),
        mine_functions: optional(anything),
      },
      call: async ({ tgt, tgt_type: tgtType, clear, mine_functions: functions }, context) => {
        const kwarg = { clear, mine_functions: functions ?? null };
        const request = { tgt, tgtType, fun: 'mine.update', kwarg };
        const { returns } = await askMinions(parts, request, context);
        return Object.fromEntries(returns.map((one) => [one.minion, one.return]));
      },
    }),
  };
}

// The `pillar` runner [salt/runners/pillar.py].

interface PillarRunnerDeps {
  readonly pillar: PillarSource;
  readonly facts: KnownFacts;
}

function pillarRunner({ pillar, facts }: PillarRunnerDeps): FunctionTable {
  return {
    'pillar.show_pillar': masterFunction({
      summary: "A minion's pillar, made anew; more keywords are put over its grains.",
      parameters: {
        minion: optional(text, '*'),
        saltenv: optional(text, 'base'),
        pillarenv: optional(text),
      },
      takesMore: true,
      call: async (question, _context, more) => {
        return (await pillar.provide(pillarRequestOf(facts, question, more))).pillar;
      },
    }),
    'pillar.show_top': masterFunction({
      summary: 'The SLS of pillar that the top files give a minion, by environment.',
      parameters: {
        minion: required(text),
        saltenv: optional(text),
        pillarenv: optional(text),
      },
      call: async (question) => {
        const { matches } = await compiledOf(pillar, pillarRequestOf(facts, question));
        return new Map(Array.from(matches, ([saltenv, names]) => [saltenv, [...names]]));
      },
    }),
  };
}

// The `saltutil` runner [salt/runners/saltutil.py]. Salt copies modules from its file server to itself
// with it. This master runs none: it answers that nothing was copied, and logs what Salt would have
// copied. Minions have a function of the same name.

interface SaltutilRunnerDeps {
  readonly fileServer: FileServer;
  readonly log: Logger;
}

/** In the order in which Salt copies them. */
const kinds: readonly string[] = [
  'clouds',
  'modules',
  'states',
  'grains',
  'renderers',
  'returners',
  'output',
  'proxymodules',
  'runners',
  'wheel',
  'engines',
  'thorium',
  'queues',
  'pillar',
  'utils',
  'sdb',
  'cache',
  'fileserver',
  'tops',
  'tokens',
  'serializers',
  'executors',
  'roster',
  'wrapper',
];

/** Kinds whose function is not called after them. */
const functionNames: ReadonlyMap<string, string> = new Map([
  ['tokens', 'sync_eauth_tokens'],
  ['fileserver', 'sync_fileserver'],
]);

const parameters = {
  saltenv: optional(names, ['base']),
  extmod_whitelist: ignored,
  extmod_blacklist: ignored,
} as const;

function saltutilRunner(parts: SaltutilRunnerDeps): FunctionTable {
  const copyNothing = async (kind: string, saltenvs: readonly string[]): Promise<WireValue> => {
    const files = await moduleFiles(parts.fileServer, kind, saltenvs);
    if (files.length > 0) parts.log.warn({ files }, 'modules for masters are not run');
    return [];
  };
  const table: Record<string, MasterFunction> = {
    'saltutil.sync_all': masterFunction({
      summary: 'Copies nothing, and logs what Salt would: this master runs no modules in Python.',
      parameters,
      call: async ({ saltenv }) => {
        const all: WireMap = {};
        for (const kind of kinds) all[kind] = await copyNothing(kind, saltenv);
        return all;
      },
    }),
  };
  for (const kind of kinds) {
    table[`saltutil.${functionNames.get(kind) ?? `sync_${kind}`}`] = masterFunction({
      summary: `Copies no ${kind}, and logs what Salt would: this master runs no modules in Python.`,
      parameters,
      call: ({ saltenv }) => copyNothing(kind, saltenv),
    });
  }
  return table;
}

/** What Salt would copy [salt/utils/extmods.py sync]. */
async function moduleFiles(
  fileServer: FileServer,
  kind: string,
  saltenvs: readonly string[],
): Promise<string[]> {
  const lists = await Promise.all(saltenvs.map((saltenv) => fileServer.lists(saltenv)));
  return lists
    .flatMap(({ files }) => files)
    .filter((file) => file.startsWith(`_${kind}/`) && /\.(pyx?|so|zip)$/.test(file));
}

// The `state` runner: orchestrations [salt/runners/state.py].

interface StateRunnerDeps {
  readonly orchestrator: Orchestrator;
}

/** What all that take SLS take. */
const slsParameters = {
  mods: required(anything),
  saltenv: optional(text, 'base'),
  test: optional(flag, false),
} as const;

const orchestrateParameters = {
  ...slsParameters,
  exclude: optional(anything),
  pillar: optional(anything),
  pillarenv: optional(text),
  pillar_enc: ignored,
  orchestration_jid: optional(text),
} as const;

export function stateRunner({ orchestrator }: StateRunnerDeps): FunctionTable {
  const orchestrate = masterFunction({
    summary:
      'Runs SLS of the file server on the master: states that act on minions and the master.',
    parameters: orchestrateParameters,
    succeeds: (value) => isWireMap(value) && isSuccess(value.data),
    call: (given, context) => {
      const request: OrchestrationRequest = {
        ...orchestrationRequestOf(given),
        exclude: namesOf(given.exclude ?? []),
        orchestrationJid: given.orchestration_jid,
      };
      return orchestrator.orchestrate(request, context);
    },
  });
  const show = masterFunction({
    summary: 'What SLS of the file server say, rendered as for an orchestration.',
    parameters: {
      ...slsParameters,
      queue: ignored,
      pillar: optional(anything),
      pillarenv: optional(text),
      pillar_enc: ignored,
    },
    call: (given, context) => orchestrator.show(orchestrationRequestOf(given), context),
  });
  return {
    'state.orchestrate': orchestrate,
    'state.orch': orchestrate,
    'state.sls': orchestrate,
    'state.orchestrate_single': singleFunction(orchestrator),
    'state.orchestrate_show_sls': show,
    'state.orch_show_sls': show,
  };
}

function singleFunction(orchestrator: Orchestrator): MasterFunction {
  return masterFunction({
    summary: 'Runs one state on the master, as if an SLS said it.',
    parameters: {
      fun: required(text),
      name: required(text),
      test: optional(flag, false),
      queue: ignored,
      pillar: optional(anything),
    },
    takesMore: true,
    call: async ({ fun, name, test, pillar }, context, more) => {
      const args = new Map(Object.entries(more).map(([key, value]) => [key, fromWire(value)]));
      const request = { fun, name, test, args, pillar: pillarOf(pillar) };
      const data = await orchestrator.single(request, context);
      context.tell('progress', { data, outputter: 'highstate' });
      return data;
    },
  });
}

interface GivenSls {
  readonly mods: WireValue;
  readonly saltenv: string;
  readonly test: boolean;
  readonly pillar: WireValue | undefined;
  readonly pillarenv: string | undefined;
}

function orchestrationRequestOf({
  mods,
  pillar,
  ...more
}: GivenSls): Pick<OrchestrationRequest, keyof GivenSls> {
  return {
    mods: namesOf(mods),
    saltenv: more.saltenv,
    test: more.test,
    pillarenv: more.pillarenv,
    pillar: pillarOf(pillar),
  };
}

/** A list, or names with commas between them. */
function namesOf(value: WireValue): readonly string[] {
  const list = Array.isArray(value) ? value.map(String) : names.parse(String(value));
  return list ?? [];
}

/** @throws MasterError ERR_ARGS */
function pillarOf(value: WireValue | undefined): PillarMap {
  if (value === undefined || value === null) return new Map();
  const pillar = fromWire(value);
  if (isPillarMap(pillar)) return pillar;
  throw new MasterError('ERR_ARGS', 'Pillar data must be formatted as a dictionary');
}

// The `test` runner, for trying clients [salt/runners/test.py].

/** Longest sleep, seconds: `rest_timeout` and more. */
const longest = 3600;

export function testRunner(): FunctionTable {
  return {
    'test.arg': masterFunction({
      summary: 'Gives back its arguments.',
      parameters: {},
      takesMore: true,
      takesRest: true,
      call: (_values, _context, kwargs, args) => ({
        args: [...args],
        kwargs: Object.fromEntries(
          Object.entries(kwargs).filter(([name]) => !name.startsWith('__')),
        ),
      }),
    }),
    'test.stdout_print': masterFunction({
      summary: 'Returns bar; Salt prints foo besides.',
      parameters: {},
      call: () => 'bar',
    }),
    'test.sleep': masterFunction({
      summary: 'Sleeps for some seconds.',
      parameters: { s_time: optional(seconds, 1) },
      call: async ({ s_time: time }, { closing }) => {
        // An end of the master wakes it: nobody is told anything then.
        await sleep(Math.min(time, longest) * 1000, undefined, { signal: closing });
        return true;
      },
    }),
  };
}

// The tables of runners, by the modules that they are about.

export interface DataRunnerDeps {
  readonly context: MasterContext;
  readonly auth: Auth;
  readonly data: MinionData;
  readonly jobs: Jobs;
}

/** Runners about what minions are, have and get. */
export function dataRunners({ context, auth, data, jobs }: DataRunnerDeps): FunctionTable {
  const { facts, targets, api } = jobs;
  return {
    ...cacheRunner({
      facts,
      targets,
      mine: data.mine,
      acceptedIds: () => auth.keys.acceptedIds(),
      banks: new CacheBanks(context.ownStore),
    }),
    ...mineRunner({ jobs: api, mineReader: data.mineReader }),
    ...pillarRunner({ pillar: data.pillar, facts }),
    ...gitPillarRunner({ updater: data.gitPillar }),
  };
}

export interface FileRunnerDeps {
  readonly context: MasterContext;
  readonly files: Files;
}

/** Runners about the file server. */
export function fileRunners({ context, files }: FileRunnerDeps): FunctionTable {
  const log = context.log.child({ component: 'runners' });
  return {
    ...fileserverRunner({ fileServer: files.server }),
    ...saltutilRunner({ fileServer: files.server, log }),
  };
}

export interface MinionRunnerDeps {
  readonly auth: Auth;
  readonly jobs: Jobs;
  readonly keys: Pick<KeysApi, 'delete'>;
}

/** Runners about minions and their jobs. */
export function minionRunners({ auth, jobs, keys }: MinionRunnerDeps): FunctionTable {
  const { api, cache } = jobs;
  return {
    ...jobsRunner({ jobs: api, cache }),
    ...manageRunner({
      jobs: api,
      keys,
      acceptedIds: () => auth.keys.acceptedIds(),
      present: () => jobs.present(),
      version: `saltbridge ${version}`,
    }),
  };
}
