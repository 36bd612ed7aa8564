/** A stack of a real Heat that is made of any template, and an application credential for it. */
import { randomBytes } from 'node:crypto';
import type { OwnerLogin } from '../../heat-bridge/index.ts';
import { eventually } from './eventually.ts';
import { askAboutStack, cloud, logIn } from './heat-cloud.ts';

export interface StackState {
  readonly status: string;
  readonly reason: string;
  readonly outputs: ReadonlyMap<string, unknown>;
}

/** A stack of any template. */
export class TemplateStack {
  readonly #path: string;
  /** `<name>/<id>` */
  readonly path: string;

  private constructor(path: string) {
    this.path = path;
    this.#path = `/stacks/${path}`;
  }

  /** @param more - environment and files */
  static async create(template: object, more: object = {}): Promise<TemplateStack> {
    const name = `saltbridge-${randomBytes(4).toString('hex')}`;
    const { stack } = await askAboutStack('POST', '/stacks', {
      stack_name: name,
      template,
      timeout_mins: 5,
      disable_rollback: true,
      ...more,
    });
    return new TemplateStack(`${name}/${stack.id}`);
  }

  async update(template: object): Promise<void> {
    await askAboutStack('PUT', this.#path, { template, timeout_mins: 5 });
  }

  async action(name: 'resume' | 'suspend'): Promise<void> {
    await askAboutStack('POST', `${this.#path}/actions`, { [name]: null });
  }

  async state(): Promise<StackState> {
    const { stack } = await askAboutStack('GET', this.#path);
    const { outputs = [] } = stack;
    return {
      status: stack.stack_status,
      reason: stack.stack_status_reason,
      outputs: new Map(outputs.map((it) => [it.output_key, it.output_value])),
    };
  }

  /** Waits until an action is over. */
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
    await askAboutStack('DELETE', this.#path);
  }
}

interface CredentialAnswer {
  readonly application_credential: { readonly id: string; readonly secret: string };
}

/** An application credential of the plain member's. */
export async function applicationCredential(): Promise<OwnerLogin> {
  if (cloud === undefined) throw new TypeError('no cloud');
  const name = `saltbridge-${randomBytes(4).toString('hex')}`;
  const url = `${cloud.keystone}/users/${cloud.users.demo.id}/application_credentials`;
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'x-auth-token': await logIn(cloud), 'content-type': 'application/json' },
    body: JSON.stringify({ application_credential: { name } }),
  });
  const { application_credential: made } = (await response.json()) as CredentialAnswer;
  return {
    auth_url: cloud.keystone,
    application_credential_id: made.id,
    application_credential_secret: made.secret,
  };
}
