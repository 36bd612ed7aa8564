/** The extensions of a master, from its parts. */
import type { Logger } from 'pino';
import {
  decide,
  type ProjectSubject,
  type Question,
  type Subject,
  questionText,
} from '../../acl/index.ts';
import type { MasterApi } from '../api.ts';
import type { AuditActor } from '../audit/record.ts';
import type { RuledDecisions } from '../audit/ruled-decisions.ts';
import type { Closers } from '../closers.ts';
import type { MasterConfig } from '../config/options.ts';
import type { UserSession } from '../eauth/user-api.ts';
import { MasterError } from '../errors.ts';
import type { EventBus } from '../events/bus.ts';
import type { Foundations } from '../foundations.ts';
import { freshJid } from '../jobs/fresh-jid.ts';
import type { JobCache } from '../jobs/job-cache.ts';
import type { Admission } from '../keys/admission.ts';
import type { ExtPillar } from '../pillar/ext-pillar.ts';
import type { LivePolicy } from '../policy/live-policy.ts';
import type { KeyAdvice } from '../requests/auth.ts';
import type { RpcMethod } from '../rpc/methods.ts';
import { everyone, type TargetResolver } from '../targeting/resolve.ts';
import type {
  ExtensionHost,
  MasterExtension,
  NamedCommands,
  OpenExtension,
  SignalIntake,
} from './extension.ts';
import { openStateArea } from './state-area.ts';

/** What they are opened with. */
export interface ExtensionParts {
  readonly config: MasterConfig;
  readonly foundations: Pick<Foundations, 'audit' | 'seal' | 'store'>;
  readonly policy: Pick<LivePolicy, 'current'>;
  readonly ruled: RuledDecisions;
  readonly targets: Pick<
    TargetResolver,
    'entitled' | 'resolve' | 'resolveProven' | 'resolveWithin'
  >;
  readonly admission: Admission;
  readonly jobs: Pick<JobCache, 'find'>;
  readonly nextJid: () => string;
  readonly bus: EventBus;
  readonly closing: AbortSignal;
  readonly now: () => number;
  readonly log: Logger;
}

/** What is there once the ports are bound. */
interface RunningMaster {
  readonly api: MasterApi;
  readonly resumeJob: ExtensionHost['resumeJob'];
  readonly holdToken: (token: string) => Promise<UserSession>;
}

/** The extensions of a master. */
export interface Extensions {
  readonly intakes: readonly SignalIntake[];
  readonly pillars: readonly ExtPillar[];
  readonly advice: KeyAdvice;
  /** See {@link OpenExtension.onKeyLost}; of all of them. */
  readonly onKeyLost: (id: string) => Promise<void>;
  readonly commands: NamedCommands | undefined;
  /** By their names at the local socket. */
  readonly methods: ReadonlyMap<string, RpcMethod>;
  start(running: RunningMaster): Promise<void>;
}

interface Named {
  readonly name: string;
  readonly open: OpenExtension;
}

/** Opens one after the other; the closers close them. */
export async function openExtensions(
  extensions: readonly MasterExtension[],
  parts: ExtensionParts,
  closers: Closers,
): Promise<Extensions> {
  let running: RunningMaster | undefined;
  const there = (): RunningMaster => {
    if (running !== undefined) return running;
    throw new MasterError('ERR_MASTER_STOPPED', 'this master is starting');
  };
  const opened: Named[] = [];
  for (const extension of extensions) {
    const { name } = extension;
    checkName(name, opened);
    const open = await extension.open(createHost(name, parts, there));
    opened.push({ name, open: closers.add(open, (it) => it.close()) });
  }
  return {
    intakes: opened.flatMap(({ open }) => open.intake ?? []),
    pillars: opened.flatMap(({ open }) => open.pillar ?? []),
    advice: joinAdvice(opened.flatMap(({ open }) => open.advice ?? [])),
    onKeyLost: async (id) => {
      await Promise.all(opened.map(({ open }) => open.onKeyLost?.(id)));
    },
    commands: opened.flatMap(({ open }) => open.commands ?? [])[0],
    methods: new Map(opened.flatMap(methodsOf)),
    start: async (master) => {
      running = master;
      for (const { open } of opened) await open.start?.();
    },
  };
}

/** Whoever knows something says it; the strongest word counts. */
function joinAdvice(advices: readonly KeyAdvice[]): KeyAdvice {
  return async (offered) => {
    const said = await Promise.all(advices.map((advice) => advice(offered)));
    return (['deny', 'accept', 'wait'] as const).find((word) => said.includes(word));
  };
}

function checkName(name: string, others: readonly Named[]): void {
  if (!/^[a-z][a-z0-9-]{0,63}$/.test(name)) throw new TypeError('no name of an extension');
  if (others.some((it) => it.name === name)) throw new TypeError(`two extensions ${name}`);
}

function methodsOf({ name, open }: Named): (readonly [string, RpcMethod])[] {
  return [...(open.rpc ?? [])].map(([method, definition]) => [`${name}.${method}`, definition]);
}

function createHost(
  name: string,
  parts: ExtensionParts,
  running: () => RunningMaster,
): ExtensionHost {
  const { config, foundations, policy, ruled, targets, jobs, nextJid, bus } = parts;
  return {
    config,
    master: () => running().api,
    policy: () => policy.current,
    decide: (question, by = policy.current) => {
      const decision = decide(question, by);
      if (decision.effect === 'deny') ruled.note(askedOf(question), decision);
      return decision;
    },
    minionsOf: async (target, { reach, hasSecrets = false } = {}) => {
      if (hasSecrets) return targets.resolveProven(target, reach ?? everyone);
      if (reach !== undefined) return targets.resolveWithin(target, reach);
      const { minions, problem } = await targets.resolve(target, { greedy: false });
      if (problem !== undefined) throw new MasterError('ERR_BAD_TGT', problem);
      return minions;
    },
    isWithin: (minions, tgt) => {
      const allowed = targets.entitled({ tgt, tgtType: 'compound' });
      return minions.every((id) => allowed.has(id));
    },
    resumeJob: (jid, signal) => running().resumeJob(jid, signal),
    holdToken: (token) => running().holdToken(token),
    freshJid: () => freshJid(nextJid, jobs),
    state: openStateArea(foundations.store, foundations.seal, name),
    admission: parts.admission,
    audit: foundations.audit,
    fire: (tag, data) => bus.fire(`saltbridge/${name}/${tag}`, data),
    logger: parts.log.child({ component: name }),
    now: parts.now,
    closing: parts.closing,
  };
}

function askedOf(question: Question): Parameters<RuledDecisions['note']>[0] {
  const { subject, action } = question;
  const what = question.action === 'return' ? question.resource.jid : questionText(question);
  return { who: actorOf(subject), action, what };
}

/** A subject as the audit log names it. */
export function actorOf(subject: Subject): AuditActor {
  switch (subject.kind) {
    case 'minion':
      return { kind: 'minion', name: subject.id };
    case 'user': {
      const { name, eauth } = subject;
      return { kind: 'user', name, ...(eauth === undefined ? {} : { eauth }) };
    }
    case 'project':
      return { kind: subject.kind, name: projectName(subject) };
    case 'service':
    case 'token':
      return { kind: subject.kind, name: subject.name };
  }
}

/** Ids first: they are Keystone's, and names are anybody's. */
function projectName({ project, user }: ProjectSubject): string {
  const names = [project, user].map(({ name, domain }) => `${domain.name}/${name}`);
  return `${project.id}/${user.id} (${names.join(', ')})`;
}
