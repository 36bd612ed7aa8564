/**
 * A real Heat with its Keystone, used as a plain member of a project. `HEAT_ENV` names a JSON file
 * with `keystone` and `heat_api` (URLs), `users.demo` and `users.admin` (`id`, `password`,
 * `project_id`), and `zaqar` and `swift` if these services exist.
 */
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { ExecutionContext } from 'ava';
import { type CloudUser, logIn as logInAs } from '../../examples/heat/cloud.ts';
import { testWhere } from '../helpers/needs.ts';
import { eventually } from './eventually.ts';

interface Cloud {
  readonly keystone: string;
  readonly heat_api: string;
  readonly zaqar?: string;
  readonly swift?: string;
  readonly users: {
    readonly demo: CloudUser;
    /**
     * User in the project `admin` who may validate tokens of others. Only tests of tokens use it.
     */
    readonly admin: CloudUser;
  };
}

const file = process.env.HEAT_ENV;

/** Data of the cloud; `undefined` if `HEAT_ENV` is not set. */
export const cloud: Cloud | undefined =
  file === undefined ? undefined : JSON.parse(readFileSync(file, 'utf8'));

/** Returns the URLs of all services of the cloud to which signals are sent. */
export function services(): readonly string[] {
  const { keystone = '', heat_api: heat = '', zaqar, swift } = cloud ?? {};
  // In a cloud of start-heat, the port of heat-api-cfn is heat-api's plus one.
  const cfn = new URL(heat);
  cfn.port = String(Number(cfn.port) + 1);
  return [keystone, heat, cfn.origin, ...[zaqar, swift].flatMap((it) => it ?? [])];
}

/** Declares a test that needs the cloud, and optionally one of its services. */
export function heatTest(
  title: string,
  run: (t: ExecutionContext) => Promise<void>,
  service?: 'swift' | 'zaqar',
): void {
  const isThere = cloud !== undefined && (service === undefined || cloud[service] !== undefined);
  testWhere(isThere, service === undefined ? 'HEAT_ENV' : `HEAT_ENV with ${service}`)(title, run);
}

/** Way in which a handle is signalled, by Heat's name, or `AWS` for the other kind of handle. */
export type HandleKind =
  | 'AWS'
  | 'CFN_SIGNAL'
  | 'HEAT_SIGNAL'
  | 'TEMP_URL_SIGNAL'
  | 'TOKEN_SIGNAL'
  | 'ZAQAR_SIGNAL';

/** A stack with one handle and one wait condition. */
export class Stack {
  readonly #path: string;
  readonly #kind: HandleKind;

  private constructor(path: string, kind: HandleKind) {
    this.#path = path;
    this.#kind = kind;
  }

  /** @param waitSeconds - time that the condition waits for its signals */
  static async create(kind: HandleKind, count: number, waitSeconds = 600): Promise<Stack> {
    const name = `saltbridge-${randomBytes(4).toString('hex')}`;
    const { stack } = await ask('POST', '/stacks', {
      stack_name: name,
      template: kind === 'AWS' ? awsTemplate(count) : template(kind, count, waitSeconds),
      timeout_mins: Math.ceil(waitSeconds / 60) + 3,
      disable_rollback: true,
    });
    return new Stack(`/stacks/${name}/${stack.id}`, kind);
  }

  /**
   * Returns the handle in the form in which Heat provides it. Waits until it is complete, because
   * Heat shows the URL of an AWS handle before Keystone accepts its signature.
   */
  async handle(): Promise<unknown> {
    await eventually(
      'the handle to be complete',
      async () => {
        const found = await ask('GET', `${this.#path}/resources`);
        const resources: { resource_name: string; resource_status: string }[] = found.resources;
        const handle = resources.find((it) => it.resource_name === 'handle');
        return handle?.resource_status === 'CREATE_COMPLETE';
      },
      180_000,
      500,
    );
    if (this.#kind === 'TOKEN_SIGNAL') {
      return { endpoint: await this.#output('endpoint'), token: await this.#output('token') };
    }
    return this.#output('signal');
  }

  async status(): Promise<{ readonly status: string; readonly reason: string }> {
    const { stack } = await ask('GET', this.#path);
    return { status: stack.stack_status, reason: stack.stack_status_reason };
  }

  /** Waits until the stack was created or has failed. */
  async end(): Promise<{ readonly status: string; readonly reason: string }> {
    await eventually(
      'the stack to be over',
      async () => (await this.status()).status !== 'CREATE_IN_PROGRESS',
      180_000,
      500,
    );
    return this.status();
  }

  /** Returns the data that the condition received, by id. */
  async data(): Promise<Readonly<Record<string, unknown>>> {
    return JSON.parse(String(await this.#output('data')));
  }

  /** Returns the data that the handle has stored, by id. */
  async stored(): Promise<readonly string[]> {
    const { metadata } = await ask('GET', `${this.#path}/resources/handle/metadata`);
    return Object.keys(metadata);
  }

  async delete(): Promise<void> {
    await ask('DELETE', this.#path);
    await eventually(
      'the stack to be gone',
      async () => (await this.status()).status === 'DELETE_COMPLETE',
      180_000,
      500,
    );
  }

  /**
   * Returns an output of the stack. The reference of an AWS handle is its name until it has an
   * address.
   */
  async #output(key: string): Promise<unknown> {
    let value: unknown;
    await eventually(
      `the output ${key}`,
      async () => {
        const { stack } = await ask('GET', this.#path);
        const outputs: { output_key: string; output_value: unknown }[] = stack.outputs ?? [];
        value = outputs.find((it) => it.output_key === key)?.output_value ?? 'null';
        return value !== 'null' && (this.#kind !== 'AWS' || key === 'data' || isAddress(value));
      },
      180_000,
      500,
    );
    return value;
  }
}

function isAddress(value: unknown): boolean {
  return String(value).startsWith('http');
}

function template(kind: HandleKind, count: number, timeout: number): object {
  const attribute = (name: string): object => ({ value: { get_attr: ['handle', name] } });
  return {
    heat_template_version: '2018-08-31',
    resources: {
      handle: { type: 'OS::Heat::WaitConditionHandle', properties: { signal_transport: kind } },
      condition: {
        type: 'OS::Heat::WaitCondition',
        properties: { handle: { get_resource: 'handle' }, timeout, count },
      },
    },
    outputs: {
      signal: attribute('signal'),
      endpoint: attribute('endpoint'),
      token: attribute('token'),
      data: { value: { get_attr: ['condition', 'data'] } },
    },
  };
}

function awsTemplate(count: number): object {
  return {
    heat_template_version: '2018-08-31',
    resources: {
      handle: { type: 'AWS::CloudFormation::WaitConditionHandle' },
      condition: {
        type: 'AWS::CloudFormation::WaitCondition',
        properties: { Handle: { get_resource: 'handle' }, Timeout: 600, Count: count },
      },
    },
    outputs: {
      signal: { value: { get_resource: 'handle' } },
      data: { value: { get_attr: ['condition', 'Data'] } },
    },
  };
}

/** Name of a user. Each user has a project of its own. */
export type CloudUserName = 'admin' | 'demo';

const tokens = new Map<CloudUserName, Promise<string>>();

async function ask(method: string, path: string, body?: object, name: CloudUserName = 'demo') {
  if (cloud === undefined) throw new TypeError('no cloud');
  const user = cloud.users[name];
  const token = tokens.get(name) ?? logInAs(cloud.keystone, user);
  tokens.set(name, token);
  const { project_id: project } = user;
  const response = await fetch(`${cloud.heat_api}/${project}${path}`, {
    method,
    headers: { 'x-auth-token': await token, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  // If a request was only accepted, the response is an HTML page.
  return text.startsWith('{') ? JSON.parse(text) : {};
}

/** Response of heat-api about a stack. */
export interface StackAnswer {
  readonly stack: {
    readonly id: string;
    readonly stack_status: string;
    readonly stack_status_reason: string;
    readonly outputs?: readonly { readonly output_key: string; readonly output_value: unknown }[];
  };
}

/**
 * Sends a request about a stack to heat-api, in the user's project.
 * @param user - default: the plain member
 */
export function askAboutStack(
  method: string,
  path: string,
  body?: object,
  user?: CloudUserName,
): Promise<StackAnswer> {
  return ask(method, path, body, user);
}

/** Returns a new token of the plain member for their project. */
export function logIn({ keystone, users }: Cloud): Promise<string> {
  return logInAs(keystone, users.demo);
}
