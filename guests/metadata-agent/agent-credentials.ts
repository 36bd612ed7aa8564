/**
 * Requests that a metadata agent makes for an instance, under a secret of its own: each carries
 * instance, project, time and nonce, so that a request that was overheard is good for nothing.
 */

import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { BridgeError } from '#heat-bridge';
import { AuthenticationError } from '#master';
import { checkSecret } from '../secret-file.ts';

/** An instance that an agent has found out. */
export interface AgentInstance {
  readonly instance: string;
  readonly project: string;
}

/** An instance, and the agent that asks for it. */
export interface IdentifiedInstance extends AgentInstance {
  /** Name of the agent. */
  readonly agent: string;
}

/** A request as it is signed. */
export interface AgentRequest {
  readonly method: string;
  /** With its query. */
  readonly path: string;
  readonly body: Uint8Array;
}

/** Header of these requests. */
export const agentHeader = 'x-saltbridge-agent';

/** Milliseconds that clocks may differ by, and that nonces are remembered. */
const maxAgeMs = 60_000;
/** Nonces that are remembered of all agents. */
const maxNonces = 200_000;
const headerForm =
  /^1;([A-Za-z0-9._-]{1,64});(\d{1,15});([A-Za-z0-9_-]{22});([A-Za-z0-9-]{1,64});([A-Za-z0-9-]{1,64});([A-Za-z0-9_-]{43})$/;

/** The header of a request. @param now - milliseconds since 1970 */
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
  const digest = createHash('sha256').update(request.body).digest('hex');
  const lines = ['saltbridge-agent', ...fields, request.method, request.path, digest];
  return createHmac('sha256', secret).update(lines.join('\n')).digest();
}

/** Verifies requests of agents. */
export class AgentCredentials {
  readonly #secrets: ReadonlyMap<string, string>;
  readonly #now: () => number;
  /** Nonce → until when it is remembered; oldest first. */
  readonly #nonces = new Map<string, number>();

  /**
   * @param secrets - by the names of agents
   * @throws TypeError for a secret that can be guessed
   */
  constructor(secrets: ReadonlyMap<string, string>, now: () => number) {
    for (const secret of secrets.values()) checkSecret(secret);
    this.#secrets = secrets;
    this.#now = now;
  }

  /** For whom an agent asks. @throws AuthenticationError ERR_EAUTH_TOKEN, ERR_EAUTH_LIMIT */
  identify(header: string, request: AgentRequest): IdentifiedInstance {
    const [, name = '', time = '', nonce = '', instance = '', project = '', mac = ''] =
      headerForm.exec(header) ?? [];
    const secret = this.#secrets.get(name);
    if (secret === undefined) throw refused();
    const expected = macOf(secret, [name, time, nonce, instance, project], request);
    if (!timingSafeEqual(expected, Buffer.from(mac, 'base64url'))) throw refused();
    const now = this.#now();
    if (Math.abs(now - Number(time)) > maxAgeMs) throw refused();
    this.#use(`${name} ${nonce}`, now);
    return { instance, project, agent: name };
  }

  #use(nonce: string, now: number): void {
    for (const [known, until] of this.#nonces) {
      if (until > now) break;
      this.#nonces.delete(known);
    }
    if (this.#nonces.has(nonce)) throw refused();
    if (this.#nonces.size >= maxNonces) {
      throw new AuthenticationError('ERR_EAUTH_LIMIT', 'too many requests of metadata agents');
    }
    this.#nonces.set(nonce, now + 2 * maxAgeMs);
  }
}

function refused(): AuthenticationError {
  return new AuthenticationError('ERR_EAUTH_TOKEN', 'this is no request of a metadata agent');
}

/** Of an instance that may ask for nothing, whyever that is. */
export function unknownInstance(): BridgeError {
  return new BridgeError('ERR_ENROLL_UNKNOWN', 'this instance is not enrolled');
}
