/** Repeats the recorded cases of init metadata with the program that recorded them. */
import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { testWhere } from '../helpers/needs.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { hasThrowawayRoot, inThrowawayRoot } from './throwaway-root.ts';

const fixture = fileURLToPath(new URL('../../test/fixtures/cfn-init/cases.json', import.meta.url));

/**
 * Program that prints the result of each case and the files that it created. One case requires that
 * `gem` is missing.
 */
const program = `
import json, os, sys
from heat_cfntools.cfntools import cfn_helper
os.umask(0o022)
if os.path.exists('/usr/bin/gem'): os.remove('/usr/bin/gem')
os.environ['PATH'] = '/usr/sbin:/usr/bin:/sbin:/bin'
with open(sys.argv[1]) as file:
    cases = json.load(file)['cases']
found = {}
for case in cases:
    root = os.path.join(sys.argv[2], case['name'])
    os.makedirs(root)
    init = json.loads(json.dumps(case['init']).replace('@ROOT@', root))
    metadata = cfn_helper.Metadata(None, None, configsets=case.get('configsets'))
    metadata.retrieve(json.dumps({'AWS::CloudFormation::Init': init}))
    try:
        metadata.cfn_init()
        error = None
    except Exception as exception:
        error = f'{type(exception).__name__}: {exception}'
    files = {}
    for place, _, names in os.walk(root):
        for name in names:
            path = os.path.join(place, name)
            with open(path) as file:
                about = {'mode': '%o' % (os.stat(path).st_mode & 0o7777), 'text': file.read()}
            files[os.path.relpath(path, root)] = about
    text = json.dumps({'error': error, 'files': files})
    found[case['name']] = json.loads(text.replace(root, '@ROOT@'))
print(json.dumps(found))
`;

testWhere(
  hasThrowawayRoot && existsSync('/usr/lib/python3/dist-packages/heat_cfntools'),
  'root, overlayfs and heat-cfntools of Debian',
)('heat-cfntools does with each case what was recorded of it', async (t) => {
  const { cases }: { cases: { name: string; heat_cfntools_1_4_2: object }[] } = JSON.parse(
    readFileSync(fixture, 'utf8'),
  );
  const directory = temporaryDirectory(t);
  const line = ['/usr/bin/python3', '-c', program, fixture, directory];
  const [unshare = '', ...args] = inThrowawayRoot(directory, line);
  const { stdout } = await promisify(execFile)(unshare, args);
  const found = JSON.parse(stdout);
  for (const { name, heat_cfntools_1_4_2: recorded } of cases) {
    t.deepEqual(found[name], recorded, name);
  }
  t.is(cases.length, 42);
});
