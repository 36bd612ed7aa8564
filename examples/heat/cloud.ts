/**
 * Client of Heat and its Keystone, for users of a project. The environment variable `HEAT_ENV`
 * contains the path of a JSON file. It has `keystone` and `heat_api` (URLs), and `users` by name
 * with `id`, `password` and `project_id`.
 */
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

export interface CloudUser {
  readonly id: string;
  readonly password: string;
  readonly project_id: string;
}

/** Content of the file. */
export interface CloudDescription {
  readonly keystone: string;
  readonly heat_api: string;
  readonly users: Readonly<Record<'admin' | 'demo', CloudUser>>;
}

export function readCloud(file: string): CloudDescription {
  return JSON.parse(readFileSync(file, 'utf8'));
}

/** Response of Heat. Its fields have the types that the reader expects. */
// biome-ignore lint/suspicious/noExplicitAny: JSON of another program
type Answer = any;

/** Client of Heat with the rights of one user of the cloud. */
export class HeatClient {
  readonly #cloud: CloudDescription;
  readonly #user: CloudUser;
  #token: Promise<string> | undefined;

  constructor(cloud: CloudDescription, user: CloudUser) {
    this.#cloud = cloud;
    this.#user = user;
  }

  /**
   * Sends a request to Heat.
   * @throws Error with the status and the response if the status is not 2xx
   */
  async ask(method: string, path: string, body?: object): Promise<Answer> {
    this.#token ??= logIn(this.#cloud.keystone, this.#user);
    const response = await fetch(`${this.#cloud.heat_api}/${this.#user.project_id}${path}`, {
      method,
      headers: { 'x-auth-token': await this.#token, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    // The response to an accepted update is an HTML page instead of JSON.
    return text.startsWith('{') ? JSON.parse(text) : {};
  }

  /** Starts to create a stack. */
  async create(
    template: string | object,
    parameters: Readonly<Record<string, unknown>> = {},
  ): Promise<Stack> {
    const name = `saltbridge-${randomBytes(4).toString('hex')}`;
    const { stack } = await this.ask('POST', '/stacks', {
      stack_name: name,
      template,
      parameters,
      timeout_mins: 10,
      disable_rollback: true,
    });
    return new Stack(this, name, stack.id);
  }
}

/** Returns a new token of a user for the user's project. */
export async function logIn(keystone: string, user: CloudUser): Promise<string> {
  const { id, password, project_id: project } = user;
  const response = await fetch(`${keystone}/auth/tokens`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      auth: {
        identity: { methods: ['password'], password: { user: { id, password } } },
        scope: { project: { id: project } },
      },
    }),
  });
  const token = response.headers.get('x-subject-token');
  if (token === null) throw new Error(`cannot log in to Keystone: status ${response.status}`);
  return token;
}

/** State of a stack. */
export interface StackState {
  readonly status: string;
  readonly reason: string;
  readonly outputs: Readonly<Record<string, unknown>>;
}

export class Stack {
  readonly name: string;
  /** Path of the stack in Heat's API: `<name>/<id>`. */
  readonly path: string;
  readonly #heat: HeatClient;
  readonly #path: string;

  constructor(heat: HeatClient, name: string, id: string) {
    this.#heat = heat;
    this.name = name;
    this.path = `${name}/${id}`;
    this.#path = `/stacks/${this.path}`;
  }

  async state(): Promise<StackState> {
    const { stack } = await this.#heat.ask('GET', this.#path);
    const outputs: { output_key: string; output_value: unknown }[] = stack.outputs ?? [];
    return {
      status: stack.stack_status,
      reason: stack.stack_status_reason,
      outputs: Object.fromEntries(outputs.map((it) => [it.output_key, it.output_value])),
    };
  }

  /** Waits until the current action of the stack has ended. */
  end(): Promise<StackState> {
    return this.until('the end of the action', ({ status }) => !status.endsWith('_IN_PROGRESS'));
  }

  /** Waits until the stack has the expected state. */
  async until(
    what: string,
    isSo: (state: StackState) => boolean,
    ms = 120_000,
  ): Promise<StackState> {
    const end = performance.now() + ms;
    for (;;) {
      const state = await this.state();
      if (isSo(state)) return state;
      if (performance.now() > end) {
        throw new Error(`waited ${ms} ms for ${what}; it is ${state.status}: ${state.reason}`);
      }
      await sleep(500);
    }
  }

  async update(
    template: string | object,
    parameters: Readonly<Record<string, unknown>> = {},
  ): Promise<StackState> {
    await this.#heat.ask('PUT', this.#path, { template, parameters, disable_rollback: true });
    return this.until(
      'the end of the update',
      ({ status }) => status.startsWith('UPDATE_') && !status.endsWith('_IN_PROGRESS'),
    );
  }

  /** Starts `stack check` and waits for its end. */
  async check(): Promise<StackState> {
    await this.#heat.ask('POST', `${this.#path}/actions`, { check: null });
    return this.until('the end of the check', ({ status }) =>
      /CHECK_(COMPLETE|FAILED)/.test(status),
    );
  }

  async signal(resource: string, details: object = {}): Promise<void> {
    await this.#heat.ask('POST', `${this.#path}/resources/${resource}/signal`, details);
  }

  /** Returns the reasons of a resource's events, the newest first. */
  async eventReasons(resource: string): Promise<readonly string[]> {
    const { events } = await this.#heat.ask('GET', `${this.#path}/resources/${resource}/events`);
    return events.map((it: Answer) => String(it.resource_status_reason));
  }

  /** Starts to delete the stack. Use {@link Stack.end} to wait for the end. */
  async delete(): Promise<void> {
    await this.#heat.ask('DELETE', this.#path);
  }
}
