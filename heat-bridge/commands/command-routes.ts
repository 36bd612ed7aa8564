/** HTTP routes of commands. The caller's token authorises each request. */

import type { FastifyInstance } from 'fastify';
import Type from 'typebox';
import type { ExtensionHost } from '#master';
import { compileSchema } from '#runtime';
import { Texts } from '#store';
import { requireCommandRule } from '../http/http-caller.ts';
import { parseBody } from '../http/route-schema.ts';
import { addRunRoutes, runFields } from '../http/run-routes.ts';
import type { BridgeHttpContext } from '../http/written-answers.ts';
import type { CommandApi } from './command-api.ts';
import { CommandSchema, publicCommandInfo } from './command-info.ts';
import { commandUpdates, OutcomeSchema } from './command-request.ts';
import { firstRunUpdate } from './command-rpc.ts';
import type { Parameters } from './parameters.ts';

const Text = Type.String({ minLength: 1, maxLength: 4096 });
const RunBody = Type.Object(
  {
    target: Type.Union([Text, Type.Array(Text, { minItems: 1, maxItems: 100_000 })]),
    targetType: Type.Optional(Text),
    ...runFields,
  },
  { additionalProperties: false },
);
const compiledRunBody = compileSchema(RunBody);

/** Adds the HTTP routes that list, describe and run commands, and the routes of their runs. */
export function addCommandRoutes(
  app: FastifyInstance,
  server: BridgeHttpContext,
  host: Pick<ExtensionHost, 'holdToken'>,
  api: CommandApi,
): void {
  addRunRoutes(app, server, host, {
    collection: 'commands',
    runs: 'runs',
    noun: 'command',
    info: CommandSchema,
    body: RunBody,
    outcome: OutcomeSchema,
    updates: commandUpdates,
    begun: { minions: Texts, missing: Texts },
    list: ({ mayCall }) => ({
      commands: api
        .list()
        .filter(({ name }) => mayCall(name))
        .map(publicCommandInfo),
    }),
    show: (caller, name) => {
      requireCommandRule(caller, name);
      return publicCommandInfo(api.show(name));
    },
    read: (caller, name, body) => {
      const { target: tgt, targetType, params, ...rest } = parseBody(compiledRunBody, body);
      const tgtType = targetType ?? (typeof tgt === 'string' ? 'glob' : 'list');
      // Unparsed parameters from the body. The schema of the command validates them.
      const given = (params ?? {}) as Parameters;
      return () => api.run(name, { ...rest, target: { tgt, tgtType }, params: given, caller });
    },
    find: (id, caller) => api.find(id, caller),
    first: firstRunUpdate,
    cancel: (run) => run.cancel(),
  });
}
