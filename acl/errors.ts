import { type ErrorEntry, SaltbridgeError, type ValuePath } from '#runtime';

/** A rule that cannot be used. The message names the rule and the field. */
export class PolicyError extends SaltbridgeError<PolicyErrorCode> {
  /** Name of the rule. */
  readonly rule: string;
  /** Where in it, for instance `resource.tag`; '' for the whole. */
  readonly field: string;
  /** What is wrong, without rule and field. */
  readonly problem: string;
  /** @internal The names that `field` is made of. */
  declare readonly path: ValuePath;

  constructor(
    code: PolicyErrorCode,
    where: {
      readonly rule: string;
      readonly field: string;
      readonly path?: readonly (string | number)[];
    },
    problem: string,
    options?: ErrorOptions,
  ) {
    const field = where.field === '' ? '' : `${where.field}: `;
    super(code, `${where.rule}: ${field}${problem}`, options);
    this.rule = where.rule;
    this.field = where.field;
    this.problem = problem;
    const path = where.path ?? where.field.split('.').filter((it) => it !== '');
    // A log has it in `field`.
    Object.defineProperty(this, 'path', { value: path, enumerable: false });
  }
}

/** The catalogue of {@link PolicyErrorCode}. */
export const policyErrors = {
  ERR_POLICY_FORM: {
    meaning: 'A rule has a field that rules do not have, lacks one, or has one of another type.',
    action: 'Correct the field that the message names.',
  },
  ERR_POLICY_PATTERN: {
    meaning: 'A pattern, target, schema, rate or date in a rule cannot be read, or is too wide.',
    action: 'Write what the message says was expected.',
  },
  ERR_POLICY_UNTRUSTED: {
    meaning: 'A rule would give a right by grains alone, which a minion can claim as it likes.',
    action: 'Name minion, pillar or nodegroup beside the grain.',
  },
} satisfies Readonly<Record<string, ErrorEntry>>;

/** Why a policy was refused; what each means is in {@link policyErrors}. */
export type PolicyErrorCode = keyof typeof policyErrors;
