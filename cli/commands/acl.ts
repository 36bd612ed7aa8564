import type { Command } from 'commander';
import type { Explanation, LintFinding } from '#acl';
import { loadCandidatePolicy, loadMasterConfig } from '#config';
import {
  type Denial,
  type ExplainRequest,
  explainActions,
  lintConfiguredPolicy,
  type ReloadReport,
  readMarkedJson,
} from '#master';
import type { CommandContext } from '../context.ts';
import { CommandError, exitCodes } from '../errors.ts';
import { withCommonOptions } from '../options.ts';
import { escapeName, printJson, printLine, printList } from '../terminal.ts';
import { addLearnCommand, addReplayCommand } from './acl-recorded.ts';

interface AclOptions {
  readonly configDir: string;
  readonly json?: boolean;
}

/** Attributes of the user, service or minion whose rights the command explains. */
interface SubjectOptions {
  readonly group?: readonly string[];
  readonly eauth?: string;
  readonly role?: readonly string[];
  readonly domain: string;
  readonly user: string;
}

interface ExplainOptions extends AclOptions, SubjectOptions {
  readonly arg?: readonly string[];
  readonly data?: string;
  readonly bytes?: string;
  readonly target?: string;
  readonly owner?: string;
}

/** Defines `saltbridge acl`, which inspects and reloads the policy. */
export function defineAcl(command: Command, context: CommandContext): void {
  addDenials(command, context);
  addExplain(command, context);
  addCheck(command, context);
  addReload(command, context);
  addLearnCommand(command, context);
  addReplayCommand(command, context);
}

function addDenials(acl: Command, context: CommandContext): void {
  withCommonOptions(
    acl
      .command('denials')
      .description('list the latest events that minions sent and the policy denied'),
  ).action(async ({ configDir, json }: AclOptions) => {
    const api = await context.openApi(configDir);
    const denials = await api.events.denials();
    await printList(context, denials, {
      json,
      format: formatDenial,
      none: 'No signal was denied.',
    });
  });
}

function addExplain(acl: Command, context: CommandContext): void {
  withCommonOptions(
    acl
      .command('explain')
      .description('show whether the running master would permit a request, and why')
      .argument('<subject>', 'id of a minion, or user:NAME, project:NAME, service:NAME, token:NAME')
      .argument('<action>', explainActions.join(', '))
      .argument('<resource>', 'tag, function (several separated by commas), path or operation')
      .option('--arg <text...>', 'arguments of the function; keyword arguments as name=value')
      .option('--target <compound>', 'target of the job')
      .option('--data <json>', 'data of the event')
      .option('--bytes <number>', 'size of the event')
      .option('--owner <id>', 'id of the minion whose mine data is requested')
      .option('--group <name...>', 'groups of a user')
      .option('--eauth <name>', 'eauth back end that authenticated the user')
      .option('--role <name...>', 'roles of the user in the Keystone project')
      .option(
        '--domain <name>',
        'name or id of the Keystone domain that contains the project and the user',
        'Default',
      )
      .option('--user <name>', 'name or id of the user that acts for the project', '-'),
  ).action(async (subject: string, action: string, resource: string, options: ExplainOptions) => {
    const request = readRequest(subject, action, resource, options);
    const api = await context.openApi(options.configDir);
    const explanation = await api.acl.explain(request);
    if (options.json) await printJson(context.stdout, explanation);
    else await printLine(context.stdout, formatExplanation(explanation));
    if (explanation.decision.effect === 'deny') context.setExitCode(exitCodes.failure);
  });
}

function addCheck(acl: Command, context: CommandContext): void {
  withCommonOptions(
    acl
      .command('check')
      .description('report the rules of a policy that have no effect')
      .argument('[file]', 'policy file (default: the policy of the configuration)'),
  ).action(async (file: string | undefined, { configDir, json }: AclOptions) => {
    const { config } = await (file === undefined
      ? loadMasterConfig(configDir)
      : loadCandidatePolicy(configDir, file));
    const { keys, close } = await context.openKeys(configDir);
    const known = await keys.list().finally(close);
    const accepted = known.filter(({ state }) => state === 'accepted').map(({ id }) => id);
    const findings = lintConfiguredPolicy(config, accepted);
    const none = 'Every rule has an effect.';
    await printList(context, findings, { json, format: formatFinding, none });
    // Do not report rules with exceptions, because they have an effect.
    const isWrong = findings.some(({ kind }) => kind !== 'overlapping');
    if (isWrong) context.setExitCode(exitCodes.failure);
  });
}

function addReload(acl: Command, context: CommandContext): void {
  withCommonOptions(
    acl
      .command('reload')
      .description(
        'make the running master reload its configuration; if the configuration has errors, nothing changes',
      ),
  ).action(async ({ configDir, json }: AclOptions) => {
    const report = await (await context.openApi(configDir)).acl.reload();
    if (json) await printJson(context.stdout, report);
    else await printLine(context.stdout, formatReload(report));
  });
}

function formatReload({ applied, needRestart }: ReloadReport): string {
  const list = (names: readonly string[]): string => names.join(', ') || 'nothing';
  return `in force now: ${list(applied)}\nafter a restart: ${list(needRestart)}`;
}

function readRequest(
  subject: string,
  action: string,
  resource: string,
  { arg, target, data, bytes, owner, ...who }: ExplainOptions,
): ExplainRequest {
  const known = explainActions.find((it) => it === action);
  if (known === undefined) {
    throw new CommandError('ERR_ARGS', `unknown action; use one of ${explainActions.join(', ')}`);
  }
  return {
    subject: readSubject(subject, who),
    action: known,
    resource,
    ...(arg === undefined ? {} : { arg }),
    ...(target === undefined ? {} : { target: { tgt: target, tgtType: 'compound' } }),
    ...(data === undefined ? {} : { data: readJson(data) }),
    ...(bytes === undefined ? {} : { bytes: readCount(bytes) }),
    ...(owner === undefined ? {} : { owner }),
  };
}

function readSubject(
  text: string,
  { group: groups = [], eauth, role: roles = [], domain, user }: SubjectOptions,
): ExplainRequest['subject'] {
  const [, kind, name = ''] = /^(user|project|service|token):(.+)$/s.exec(text) ?? [];
  // Pass the project as id and as name, because a rule can name it in either way.
  const entity = (it: string) => ({ id: it, name: it, domain: { id: domain, name: domain } });
  if (kind === 'project') return { kind, project: entity(name), user: entity(user), roles };
  if (kind === 'user') return { kind, name, groups, ...(eauth === undefined ? {} : { eauth }) };
  if (kind === 'service' || kind === 'token') return { kind, name };
  return { kind: 'minion', id: text };
}

function readJson(text: string): ReturnType<typeof readMarkedJson> {
  try {
    return readMarkedJson(text);
  } catch (cause) {
    throw new CommandError('ERR_ARGS', '--data: the value is not JSON', { cause });
  }
}

function readCount(text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new CommandError('ERR_ARGS', '--bytes: the value is not a whole number');
}

function formatDenial({ minion, tag, rule, reason, count, lastAt }: Denial): string {
  const when = new Date(lastAt).toISOString();
  const times = count === 1 ? '' : ` (${count} times)`;
  return `${when} ${escapeName(minion)} ${escapeName(tag)}${times}: ${escapeName(rule)}: ${escapeName(reason)}`;
}

function formatExplanation({ decision, nearest }: Explanation): string {
  const { effect, rule, reason } = decision;
  const lines = [`${effect}: ${rule}${formatRuleOrigin(decision)}: ${reason}`].concat(
    nearest.map((it) => `  nearest: ${it.rule}${formatRuleOrigin(it)}: ${it.obstacles.join('; ')}`),
  );
  return lines.map(escapeName).join('\n');
}

function formatFinding(finding: LintFinding): string {
  return escapeName(
    `${finding.kind}: ${finding.rule}${formatRuleOrigin(finding)}: ${finding.reason}`,
  );
}

function formatRuleOrigin({ origin }: Pick<LintFinding, 'origin'>): string {
  return origin === undefined ? '' : ` (${origin.file}:${origin.line})`;
}
