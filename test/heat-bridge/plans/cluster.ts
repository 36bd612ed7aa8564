/** A plan for a database cluster: a master, replicas, and a notification that may fail. */
import type { CommandDefinition, PlanDefinition } from '#heat-bridge';

const text = { type: 'string', maxLength: 100 } as const;

/** Returns a command that calls the function of the same name. */
function command(
  name: string,
  parameters: Readonly<Record<string, object>>,
  more: Partial<CommandDefinition> = {},
): CommandDefinition {
  return {
    name: `db.${name}`,
    description: 'x',
    function: `db.${name.replaceAll('-', '_')}`,
    reviewed: 'made for this test alone',
    parameters: { type: 'object', required: Object.keys(parameters), properties: parameters },
    ...more,
  };
}

const position = {
  type: 'object',
  properties: { file: { type: 'string' }, at: { type: 'array', items: { type: 'integer' } } },
};

export const commands: readonly CommandDefinition[] = [
  command('grant', { user: text }),
  command('revoke', { user: text }),
  command('status', {}, { returns: position }),
  command('follow', { file: text, at: { type: 'integer' }, user: text }),
  command('unfollow', {}),
  command('note', { user: text }),
];

export const cluster: PlanDefinition = {
  name: 'db.create-cluster',
  description: 'Makes a master and its replicas.',
  parameters: { type: 'object', required: ['user'], properties: { user: text } },
  groups: { master: { max: 1 }, replicas: { min: 1 } },
  steps: {
    grant: { command: 'db.grant', group: 'master', undo: { command: 'db.revoke' } },
    status: { command: 'db.status', group: 'master', needs: ['grant'] },
    follow: {
      command: 'db.follow',
      group: 'replicas',
      needs: ['status'],
      params: {
        user: { parameter: 'user' },
        file: { step: 'status', path: '/file' },
        at: { step: 'status', path: '/at/0' },
      },
      undo: { command: 'db.unfollow' },
    },
    note: { command: 'db.note', group: 'replicas', needs: ['follow'], onFailure: 'continue' },
  },
};

/** A command with a secret parameter. */
export const user: CommandDefinition = {
  name: 'db.user',
  description: 'x',
  state: 'user',
  reviewed: 'made for this test alone',
  parameters: { type: 'object', properties: { password: { type: 'string' } } },
  secret: ['password'],
};
