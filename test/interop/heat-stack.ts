/** A stack of a real Heat with any template, and an application credential for it. */
import { randomBytes } from 'node:crypto';
import type { OwnerLogin } from '#guests';
import { eventually } from './eventually.ts';
import { askAboutStack, type CloudUserName, cloud, logIn, type StackAnswer } from './heat-cloud.ts';

export interface StackState {
  readonly status: string;
  readonly reason: string;
  readonly outputs: ReadonlyMap<string, unknown>;
}

/** A stack with any template. */
export class TemplateStack {
  readonly #path: string;
  /** Path of the stack, `<name>/<id>`. */
  readonly path: string;
  readonly #user: CloudUserName;

  private constructor(path: string, user: CloudUserName) {
    this.path = path;
    this.#path = `/stacks/${path}`;
    this.#user = user;
  }

  /**
   * Creates a stack.
   * @param more - environment and files
   * @param name - unique within the user's project
   * @param user - owner of the stack; default: the plain member
   */
  static async create(
    template: object,
    more: object = {},
    name: string = newStackName(),
    user: CloudUserName = 'demo',
  ): Promise<TemplateStack> {
    const body = {
      stack_name: name,
      template,
      timeout_mins: 5,
      disable_rollback: true,
      ...more,
    };
    const { stack } = await askAboutStack('POST', '/stacks', body, user);
    return new TemplateStack(`${name}/${stack.id}`, user);
  }

  /**
   * Updates the stack.
   * @param rollsBack - whether changes are undone if the update fails
   */
  async update(template: object, rollsBack = false): Promise<void> {
    const body = { template, timeout_mins: 5, disable_rollback: !rollsBack };
    await this.#ask('PUT', '', body);
  }

  async action(name: 'resume' | 'suspend'): Promise<void> {
    await this.#ask('POST', '/actions', { [name]: null });
  }

  async state(): Promise<StackState> {
    const { stack } = await this.#ask('GET');
    const { outputs = [] } = stack;
    return {
      status: stack.stack_status,
      reason: stack.stack_status_reason,
      outputs: new Map(outputs.map((it) => [it.output_key, it.output_value])),
    };
  }

  /** Waits until an action has ended. */
  async end(action: string): Promise<StackState> {
    await eventually(
      `${action} to be over`,
      async () => {
        const { status } = await this.state();
        return status.startsWith(`${action}_`) && !status.endsWith('IN_PROGRESS');
      },
      90_000,
      500,
    );
    return this.state();
  }

  /** Waits until an output is a map. */
  async collectConfig<T extends object>(output: string): Promise<T> {
    let found: unknown;
    await eventually(
      `the output ${output}`,
      async () => {
        found = (await this.state()).outputs.get(output);
        return typeof found === 'object' && found !== null && Object.keys(found).length > 1;
      },
      60_000,
      500,
    );
    return found as T;
  }

  async delete(): Promise<void> {
    await this.#ask('DELETE');
  }

  #ask(method: string, below = '', body?: object): Promise<StackAnswer> {
    return askAboutStack(method, `${this.#path}${below}`, body, this.#user);
  }
}

export function newStackName(): string {
  return `saltbridge-${randomBytes(4).toString('hex')}`;
}

/** Creates a trust of the plain member in another user, who can then act for the project. */
export async function trustedLogin(): Promise<OwnerLogin> {
  if (cloud === undefined) throw new TypeError('no cloud');
  const { demo, admin } = cloud.users;
  const response = await fetch(`${cloud.keystone}/OS-TRUST/trusts`, {
    method: 'POST',
    headers: { 'x-auth-token': await logIn(cloud), 'content-type': 'application/json' },
    body: JSON.stringify({
      trust: {
        trustor_user_id: demo.id,
        trustee_user_id: admin.id,
        project_id: demo.project_id,
        impersonation: true,
        roles: [{ name: 'member' }],
      },
    }),
  });
  const { trust } = (await response.json()) as { readonly trust: { readonly id: string } };
  const { id: user_id, password } = admin;
  return { auth_url: cloud.keystone, user_id, password, trust_id: trust.id };
}

interface CredentialAnswer {
  readonly application_credential: { readonly id: string; readonly secret: string };
}

/** Creates an application credential of the plain member. */
export async function applicationCredential(): Promise<OwnerLogin> {
  if (cloud === undefined) throw new TypeError('no cloud');
  const name = `saltbridge-${randomBytes(4).toString('hex')}`;
  const url = `${cloud.keystone}/users/${cloud.users.demo.id}/application_credentials`;
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'x-auth-token': await logIn(cloud), 'content-type': 'application/json' },
    body: JSON.stringify({ application_credential: { name } }),
  });
  const answer = await response.text();
  if (!response.ok) throw new Error(`no application credential: ${response.status} ${answer}`);
  const { application_credential: made }: CredentialAnswer = JSON.parse(answer);
  return {
    auth_url: cloud.keystone,
    application_credential_id: made.id,
    application_credential_secret: made.secret,
  };
}
