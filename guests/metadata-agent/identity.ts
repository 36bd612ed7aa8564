/**
 * Enrolment by identity: an instance that a metadata agent has found out gets the user-data that
 * enrols it, if a rule of the configuration means it, and nobody begins its enrolment beforehand.
 */

import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import Type from 'typebox';
import { describeRoute } from '#heat-bridge';
import { type AuditBursts, AuthenticationError } from '#master';
import { Budget, KeyedMutex, Semaphore, TokenBuckets } from '#runtime';
import type { CloudReader } from '../cloud/cloud-reader.ts';
import { type IdentifiedInstance, unknownInstance } from './agent-credentials.ts';
import { type IdentityRule, matchesRule } from './identity-rules.ts';
import type { InstanceEnrolments } from './instance-enrolments.ts';
import { instanceRate, minionIdOf } from './vendordata.ts';

/** Instances that are looked up in the cloud at once. */
const lookUpsAtOnce = 16;
/** Requests of one instance, and of all, that are answered or wait. */
const maxRequests = { perOwner: 20, total: 1_000 };

export interface IdentityEnrolmentDeps {
  readonly rules: readonly IdentityRule[];
  readonly enrolments: Pick<InstanceEnrolments, 'isOver' | 'userDataFor'>;
  readonly cloud: Pick<CloudReader, 'ports' | 'server'>;
  /** Counts what is repeated. */
  readonly bursts: Pick<AuditBursts, 'note'>;
  readonly log: Pick<Logger, 'warn'>;
}

/** What the cloud knows of an instance. */
interface CloudFacts {
  readonly name: string;
  readonly image: readonly string[];
  readonly network: readonly string[];
  readonly zone: readonly string[];
}

/** Why an instance gets nothing: for the operator. The instance is told one thing, whatever it is. */
class IdentityRefusal extends Error {}

/** Answers instances. */
export class IdentityEnrolment {
  readonly #deps: IdentityEnrolmentDeps;
  readonly #rates = new TokenBuckets(instanceRate);
  readonly #requests = new Budget(maxRequests);
  readonly #byInstance = new KeyedMutex();
  readonly #lookUps = new Semaphore(lookUpsAtOnce);

  constructor(deps: IdentityEnrolmentDeps) {
    this.#deps = deps;
  }

  /**
   * User-data that enrols the instance.
   * @throws BridgeError ERR_ENROLL_UNKNOWN for an instance that can have none, in the words for one
   * that nobody knows; AuthenticationError ERR_EAUTH_LIMIT
   */
  async userDataFor(asking: IdentifiedInstance): Promise<string> {
    const { instance } = asking;
    if (!this.#rates.tryTake(instance)) throw tooMany();
    if (!this.#requests.tryTake(instance)) throw tooMany();
    try {
      // One after the other: no instance takes the look-ups of the others.
      const { rule, userData } = await this.#byInstance.run(instance, () => this.#enrol(asking));
      this.#note(asking, 'permitted', { rule: rule.name });
      return userData;
    } catch (error) {
      if (!(error instanceof IdentityRefusal)) throw error;
      this.#note(asking, 'denied', { detail: error.message });
      throw unknownInstance();
    } finally {
      this.#requests.release(instance);
    }
  }

  async #enrol(
    asking: IdentifiedInstance,
  ): Promise<{ readonly rule: IdentityRule; readonly userData: string }> {
    const { rules, enrolments } = this.#deps;
    const { instance, project, agent } = asking;
    const known = { project: [project], agent: [agent] };
    const candidates = rules.filter((it) => matchesRule(it, known));
    if (candidates.length === 0) throw new IdentityRefusal('no rule means it');
    // Before the cloud is asked: an instance asks again each time that it starts.
    if (await enrolments.isOver(instance)) throw new IdentityRefusal('it has had its enrolment');
    const facts = await this.#lookUp(asking);
    const rule = candidates.find((it) => matchesRule(it, { ...known, ...facts }));
    if (rule === undefined) throw new IdentityRefusal('no rule means it');
    const { ticketLifetime, masters } = rule;
    const answer = await enrolments.userDataFor({
      id: minionIdOf(rule.id, { uuid: instance, name: facts.name, project }),
      instance,
      project,
      // It has asked by one.
      agent: true,
      ...(masters === undefined ? {} : { masters }),
      ...(ticketLifetime === undefined ? {} : { lifetimeSeconds: ticketLifetime }),
    });
    if ('userData' in answer) return { rule, userData: answer.userData };
    throw new IdentityRefusal(answer.refusal);
  }

  async #lookUp({ instance, project }: IdentifiedInstance): Promise<CloudFacts> {
    const { cloud, log } = this.#deps;
    try {
      return await this.#lookUps.run(() => readFacts(cloud, { instance, project }));
    } catch (error) {
      if (error instanceof IdentityRefusal) throw error;
      const reason = error instanceof Error ? error.message : 'unknown';
      log.warn({ instance, reason }, 'an instance was not looked up');
      throw new IdentityRefusal('the cloud did not answer');
    }
  }

  #note(
    { instance, project, agent }: IdentifiedInstance,
    outcome: 'denied' | 'permitted',
    more: { readonly detail: string } | { readonly rule: string },
  ): void {
    const entry = {
      who: { kind: 'service', name: agent },
      action: 'enroll.asked',
      what: 'bridge.identity',
      on: [instance],
      outcome,
      ...more,
    } as const;
    this.#deps.bursts.note(entry, project);
  }
}

/** @throws IdentityRefusal, CloudError */
async function readFacts(
  cloud: Pick<CloudReader, 'ports' | 'server'>,
  { instance, project }: Pick<IdentifiedInstance, 'instance' | 'project'>,
): Promise<CloudFacts> {
  const server = await cloud.server(instance);
  if (server === undefined || server.isDeleted) throw new IdentityRefusal('Nova does not know it');
  if (server.project !== project) throw new IdentityRefusal('Nova has it in another project');
  // A tenant may give a port of its own the id of another's instance.
  const ports = (await cloud.ports([instance])).filter(
    (it) => it.device === instance && it.project === project,
  );
  const { hostname = '', image, zone } = server;
  return {
    name: hostname,
    image: image === undefined ? [] : [image],
    network: ports.map(({ network }) => network),
    zone: zone === undefined ? [] : [zone],
  };
}

function tooMany(): AuthenticationError {
  return new AuthenticationError('ERR_EAUTH_LIMIT', 'too many requests for this instance');
}

const operation = describeRoute({
  summary: 'User-data that enrols the instance, if a rule means it; for metadata agents',
  answer: Type.String(),
  answerTypes: ['text/plain'],
});

/** `GET guest/user-data`. @param identify - @throws AuthenticationError ERR_EAUTH_TOKEN */
export function addIdentityRoute(
  app: FastifyInstance,
  identify: (request: FastifyRequest) => IdentifiedInstance,
  identity: IdentityEnrolment,
): void {
  app.get('/guest/user-data', { schema: operation }, async (request, reply) => {
    const userData = await identity.userDataFor(identify(request));
    return reply.type('text/plain; charset=utf-8').send(userData);
  });
}
