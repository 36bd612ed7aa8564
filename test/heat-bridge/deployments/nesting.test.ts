/** Metadata of a template that is nested too deeply for recursive functions. */
import test from 'ava';
import { CodeCatalog } from '#guests/deployments/code-catalog.ts';
import {
  type Deployment,
  parseServerMetadata,
  type ServerMetadata,
  type UnreadableDeployment,
} from '#guests/deployments/metadata.ts';
import { metadataUpdates } from '#guests/deployments/metadata-hooks.ts';

/** Returns nested lists as JSON. */
function lists(levels: number): string {
  return `${'['.repeat(levels)}${']'.repeat(levels)}`;
}

const initKey = 'AWS::CloudFormation::Init';
const endless = lists(100_000);

function parse(text: string): ServerMetadata {
  const parsed = parseServerMetadata(JSON.parse(text));
  if (parsed.ok) return parsed.metadata;
  throw new Error(parsed.problem);
}

function parseOne(entry: string): Deployment | UnreadableDeployment | undefined {
  return parse(`{"deployments": [{"id": "one", "name": "one", ${entry}}]}`).deployments[0];
}

test('a deployment with an endlessly nested config fails with the reason', (t) => {
  const problem = 'its config has more than 64 levels';
  t.like(parseOne(`"group": "hiera", "config": {"a": ${endless}}`), { id: 'one', problem });
  const configs = `{"configs": [{"actions": ["CREATE"], "tool": "hiera", "config": {"a": ${endless}}}]}`;
  t.like(parseOne(`"group": "component", "config": ${configs}`), { problem });
  const whole = parseOne(`"group": "hiera", "config": {"a": ${lists(63)}}`);
  t.true(whole !== undefined && !('problem' in whole));
  const tooDeep = parseOne(`"group": "hiera", "config": {"a": ${lists(64)}}`);
  t.like(tooDeep, { problem });
});

test('an endlessly nested input is named', (t) => {
  const problem = 'the input a has more than 64 levels';
  t.like(parseOne(`"inputs": [{"name": "a", "type": "Json", "value": ${endless}}]`), { problem });
  const text = JSON.stringify(endless);
  t.like(parseOne(`"inputs": [{"name": "a", "type": "Json", "value": ${text}}]`), { problem });
});

test('endlessly nested init metadata and watched values do not stop other hooks', (t) => {
  const hooks = '{"h": {"triggers": "post.add", "path": "Metadata.site", "action": "demo.go"}}';
  const { values } = parse(
    `{"${initKey}": {"config": ${endless}}, "site": ${endless}, "saltbridge:cfn-hup": ${hooks}}`,
  );
  const [init, hook] = metadataUpdates(values, []).deployments;
  t.like(init, { name: initKey, action: 'CREATE', problem: 'its config has more than 64 levels' });
  t.like(hook, { name: 'h', config: 'demo.go' });
});

test('init metadata over the size limit of a config fails with the reason', (t) => {
  const { values } = parse(JSON.stringify({ [initKey]: { config: 'x'.repeat(262_144) } }));
  const problem = 'its config has more than 262144 characters';
  t.like(metadataUpdates(values, []).deployments[0], { name: initKey, problem });
});

for (const group of ['cfn-init', 'hiera', 'json-file', 'chef'] as const) {
  test(`endlessly nested text for the group ${group} is refused`, (t) => {
    const catalog = new CodeCatalog([
      { name: 'site.code', description: 'x', group, unsafe: 'i-understand' },
    ]);
    const config = group === 'chef' ? endless : `{"config": ${endless}}`;
    const entry = { id: 'one', name: 'one', action: 'CREATE', inputs: {}, outputs: [] } as const;
    const signal = { transport: 'NO_SIGNAL' } as const;
    const resolved = catalog.resolve({ ...entry, group, config, signal }, () => true);
    t.like(resolved, { ok: false });
  });
}
