/**
 * Authenticates requests that a metadata agent sends for an instance. A request contains the
 * instance, its project, the time and a nonce (a random text that is used once). The request is
 * signed with the secret of the agent, and cannot be replayed.
 */

import { createHmac, hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { BridgeError } from '#heat-bridge';
import { AuthenticationError } from '#master';
import { Budget, releaseAll, tryTakeAll } from '#runtime';
import { guestLimits } from '../limits.ts';
import { checkSecret } from '../secret-file.ts';

/** Instance that an agent identified. */
export interface AgentInstance {
  readonly instance: string;
  readonly project: string;
}

/** Instance, with the agent that identified it. */
export interface IdentifiedInstance extends AgentInstance {
  /** Name of the agent. */
  readonly agent: string;
}

/** Fields of an HTTP request that the signature of an agent covers. */
export interface AgentRequest {
  readonly method: string;
  /** Path of the request, with its query. */
  readonly path: string;
  readonly body: Uint8Array;
}

/** Name of the header with the signature. */
export const agentHeader = 'x-saltbridge-agent';

/**
 * Maximum difference between the clocks of agent and master, in milliseconds. Nonces are stored for
 * twice this time.
 */
const maxAgeMs = 60_000;
const headerForm =
  /^1;([A-Za-z0-9._-]{1,64});(\d{1,15});([A-Za-z0-9_-]{22});([A-Za-z0-9-]{1,64});([A-Za-z0-9-]{1,64});([A-Za-z0-9_-]{43})$/;

/**
 * Signs a request. Returns the value of the header {@link agentHeader}.
 * @param now - milliseconds since 1970
 */
export function signAgentRequest(
  agent: { readonly name: string; readonly secret: string },
  { instance, project }: AgentInstance,
  request: AgentRequest,
  now: number,
): string {
  const nonce = randomBytes(16).toString('base64url');
  const fields = [agent.name, String(now), nonce, instance, project];
  return ['1', ...fields, macOf(agent.secret, fields, request).toString('base64url')].join(';');
}

function macOf(secret: string, fields: readonly string[], request: AgentRequest): Buffer {
  const digest = hash('sha256', request.body);
  const lines = ['saltbridge-agent', ...fields, request.method, request.path, digest];
  return createHmac('sha256', secret).update(lines.join('\n')).digest();
}

/** Verifies requests of agents. */
export class AgentCredentials {
  readonly #secrets: ReadonlyMap<string, string>;
  readonly #now: () => number;
  /**
   * Time at which this verifier was created. It does not know the nonces of requests before this
   * time.
   */
  readonly #openedAt: number;
  /**
   * Nonces that were used already, oldest first, with the agent instance that used each of them. A
   * nonce is forgotten at the time `until`.
   */
  readonly #nonces = new Map<string, { readonly owner: AgentInstance; readonly until: number }>();
  readonly #held = new Budget(guestLimits.agentNonces);
  readonly #heldOfProjects = new Budget(guestLimits.agentProjectNonces);
  readonly #announce: (nonce: string, owner: AgentInstance) => void;

  /**
   * Creates the verifier.
   * @param secrets - secrets by agent name
   * @param announce - reports a used nonce to the other cluster members
   * @throws TypeError for a secret that is too short
   */
  constructor(
    secrets: ReadonlyMap<string, string>,
    now: () => number,
    announce: (nonce: string, owner: AgentInstance) => void = () => {},
  ) {
    for (const secret of secrets.values()) checkSecret(secret);
    this.#secrets = secrets;
    this.#now = now;
    this.#openedAt = now();
    this.#announce = announce;
  }

  /**
   * Verifies a request, and returns the instance for which an agent asks.
   * @throws AuthenticationError ERR_EAUTH_TOKEN, ERR_EAUTH_LIMIT
   */
  identify(header: string, request: AgentRequest): IdentifiedInstance {
    const [, name = '', time = '', nonce = '', instance = '', project = '', mac = ''] =
      headerForm.exec(header) ?? [];
    const secret = this.#secrets.get(name);
    if (secret === undefined) throw refused();
    const expected = macOf(secret, [name, time, nonce, instance, project], request);
    if (!timingSafeEqual(expected, Buffer.from(mac, 'base64url'))) throw refused();
    const now = this.#now();
    if (Math.abs(now - Number(time)) > maxAgeMs) throw refused();
    // An earlier process may have accepted this request.
    if (Number(time) < this.#openedAt) throw refused();
    const used = `${name} ${nonce}`;
    this.#use(used, { instance, project }, now);
    this.#announce(used, { instance, project });
    return { instance, project, agent: name };
  }

  /**
   * Records a nonce that another cluster member has accepted. The nonce is stored even if a limit
   * is exceeded, because this member would otherwise accept the request again.
   */
  note(nonce: string, owner: AgentInstance): void {
    const now = this.#now();
    this.#forgetUntil(now);
    if (this.#nonces.has(nonce)) return;
    this.#held.take(owner.instance);
    this.#heldOfProjects.take(owner.project);
    this.#nonces.set(nonce, { owner, until: now + 2 * maxAgeMs });
  }

  #use(nonce: string, owner: AgentInstance, now: number): void {
    this.#forgetUntil(now);
    if (this.#nonces.has(nonce)) throw refused();
    const full = tryTakeAll(this.#partsOf(owner));
    if (full !== undefined) throw tooMany(full.which);
    this.#nonces.set(nonce, { owner, until: now + 2 * maxAgeMs });
  }

  /** Removes the nonces whose storage time has passed at `now`. */
  #forgetUntil(now: number): void {
    for (const [nonce, { owner, until }] of this.#nonces) {
      if (until > now) return;
      this.#nonces.delete(nonce);
      releaseAll(this.#partsOf(owner));
    }
  }

  #partsOf({ instance, project }: AgentInstance) {
    return [
      { budget: this.#held, owner: instance, amount: 1, which: 'this instance' },
      {
        budget: this.#heldOfProjects,
        owner: project,
        amount: 1,
        which: 'the instances of this project',
      },
    ];
  }
}

function tooMany(owner: string): AuthenticationError {
  return new AuthenticationError('ERR_EAUTH_LIMIT', `too many requests of ${owner}; retry later`);
}

function refused(): AuthenticationError {
  return new AuthenticationError(
    'ERR_EAUTH_TOKEN',
    'missing or invalid signature of a metadata agent',
  );
}

/**
 * Returns the error for an instance without access. It does not depend on the reason, so that the
 * instance learns nothing.
 */
export function unknownInstance(): BridgeError {
  return new BridgeError('ERR_ENROLL_UNKNOWN', 'the instance is not enrolled');
}
