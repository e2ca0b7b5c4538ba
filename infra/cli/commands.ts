// Every command with its flags, help and examples. The work itself is in commands/, loaded when it is asked for.

import { type Command, Option } from 'commander';
import {
  clusterFlag,
  examples,
  jsonFlag,
  optionsFlag,
  parseLimit,
  parseListen,
  parseNodeName,
  parsePortBase,
  parseReason,
  parseRoles,
  parseStreams,
  parseVersion,
  sealingKeyFlag,
  storeFlag,
  tokenFileFlag,
} from './flags.ts';

/** Adds all commands to the program. */
export function addCommands(program: Command): Command {
  addRunning(program);
  addSidecar(program);
  addOperating(program);
  return explainEnvironment(program);
}

/** Exit codes and variables, below the program's help. */
export function explainEnvironment(program: Command): Command {
  return program.addHelpText(
    'after',
    `
Exit codes: 0 ok, 1 failed, 2 wrong usage.
Environment: HEADGATE_STORE, HEADGATE_TOKEN_FILE, HEADGATE_OPTIONS, HEADGATE_SEALING_KEY stand in for the flags;
HEADGATE_LOG sets the log level (trace, debug, info, warn, error, silent).`,
  );
}

function addRunning(program: Command): void {
  examples(
    program
      .command('up')
      .description('run the whole system on this machine and route real traffic')
      .option('--cluster <dir>', 'folder of manifests to watch (default: a sample, copied into the state folder)')
      .option('--state <dir>', 'folder for everything that it keeps', '.headgate')
      .addOption(storeFlag().default(undefined, 'a store in the state folder'))
      .option('--port-base <n>', 'first of the ports on 127.0.0.1: HTTP, HTTPS, stats, functions, sidecar', parsePortBase, 18080),
    ['headgate up', 'headgate up --cluster ./manifests --port-base 28080'],
  ).action(async (flags) => (await import('./commands/up.ts')).up(flags));

  examples(
    program
      .command('render')
      .description('compute offline what one node would run, and write it')
      .addOption(clusterFlag())
      .addOption(new Option('--node <name>', 'the node to compose for').argParser(parseNodeName).makeOptionMandatory())
      .requiredOption('--out <dir>', 'folder to write to; an earlier output in it is replaced')
      .addOption(optionsFlag()),
    [
      'headgate render --cluster ./manifests --node worker-1 --out ./out',
      'kubectl get routes,services,endpointslices,nodes,namespaces -A -o yaml | headgate render --cluster - --node worker-1 --out ./out',
    ],
  ).action(async (flags) => (await import('./commands/render.ts')).render(flags));

  examples(
    program
      .command('serve')
      .description('serve all functions behind one port: reconcile, admit, stream, operate')
      .addOption(storeFlag())
      .addOption(clusterFlag())
      .addOption(new Option('--listen <host:port>', 'address to listen on').argParser(parseListen).makeOptionMandatory())
      .addOption(tokenFileFlag().makeOptionMandatory())
      .option('--operator-token-file <file>', 'token for rollback, resume, versions, diff and fleet; without it they answer loopback only')
      .addOption(sealingKeyFlag())
      .addOption(optionsFlag()),
    ['headgate serve --store file:///var/lib/headgate/store --cluster ./manifests --listen 127.0.0.1:8080 --token-file ./token'],
  ).action(async (flags) => (await import('./commands/serve.ts')).serve(flags));

  program
    .command('up-node', { hidden: true })
    .requiredOption('--plan <file>')
    .action(async (flags) => (await import('../local/node.ts')).runLocalNode(flags.plan));
}

/** The `sidecar` command. */
export function addSidecar(program: Command): void {
  examples(
    program
      .command('sidecar')
      .description('run beside HAProxy and iptables on a node, and make the node match the head version')
      .addOption(new Option('--stream <urls>', 'ws://HOST:PORT/stream, several with a comma between').argParser(parseStreams))
      .addOption(new Option('--node <name>', 'name of this node').argParser(parseNodeName))
      .option('--state <dir>', 'folder for everything that it keeps', '/var/lib/headgate')
      .addOption(tokenFileFlag())
      .addOption(
        new Option('--roles <roles>', 'router, service-proxy, or both').argParser(parseRoles).default(['router', 'service-proxy'], 'both'),
      )
      .option('--haproxy <path>', 'HAProxy program', 'haproxy')
      .option('--reload-script <path>', 'program that reloads HAProxy, in place of ours')
      .addOption(new Option('--listen <host:port>', 'serve /healthz, /readyz and /metrics here').argParser(parseListen))
      .addOption(sealingKeyFlag())
      .option('--take-over', 'start the service proxy although kube-proxy runs here: its rules become ours')
      .option('--cleanup', 'remove every iptables rule that Headgate ever wrote, and end'),
    [
      'headgate sidecar --stream ws://10.0.0.5:8080/stream --node worker-1 --token-file ./token',
      'headgate sidecar --stream ws://10.0.0.5:8080/stream --node edge-1 --token-file ./token --roles router',
      'headgate sidecar --stream ws://10.0.0.5:8080/stream --node worker-1 --token-file ./token --take-over',
      'headgate sidecar --cleanup',
    ],
  ).action(async (flags) => (await import('./commands/sidecar.ts')).sidecar(flags));
}

function addOperating(program: Command): void {
  examples(
    program
      .command('reconcile')
      .description('read the cluster once and publish a version when something changed')
      .addOption(storeFlag())
      .addOption(clusterFlag())
      .addOption(sealingKeyFlag())
      .addOption(optionsFlag())
      .addOption(jsonFlag()),
    ['headgate reconcile --store file:///var/lib/headgate/store --cluster ./manifests'],
  ).action(async (flags) => (await import('./commands/reconcile.ts')).reconcileOnce(flags));

  examples(
    program
      .command('versions')
      .description('list versions, newest first')
      .addOption(storeFlag())
      .addOption(jsonFlag())
      .option('--limit <n>', 'at most so many', parseLimit, 50),
    ['headgate versions', 'headgate versions --limit 5 --json'],
  ).action(async (flags) => (await import('./commands/versions.ts')).versions(flags));

  examples(
    program
      .command('show')
      .description('show a version, or one file of it')
      .argument('<version>', 'its number', parseVersion)
      .argument('[path]', 'a file, for example router/config/00-base.cfg')
      .addOption(storeFlag())
      .addOption(jsonFlag()),
    ['headgate show 3', 'headgate show 3 router/config/00-base.cfg'],
  ).action(async (version, path, flags) => (await import('./commands/show.ts')).show(version, path, flags));

  examples(
    program
      .command('diff')
      .description('what differs between two versions, in the words of the cluster; exit 0 with or without differences')
      .argument('<a>', 'number of the older version', parseVersion)
      .argument('<b>', 'number of the newer version', parseVersion)
      .addOption(storeFlag())
      .addOption(jsonFlag()),
    ['headgate diff 2 3'],
  ).action(async (a, b, flags) => (await import('./commands/diff.ts')).diff(a, b, flags));

  examples(
    program
      .command('rollback')
      .description("put a version's configuration back and hold it; endpoints keep moving until `resume`")
      .argument('<version>', 'its number', parseVersion)
      .addOption(new Option('--reason <text>', 'why; kept in the history').argParser(parseReason).makeOptionMandatory())
      .addOption(new Option('--roles <roles>', 'router, service-proxy, or both').argParser(parseRoles).default(['router'], 'router'))
      .option('--freeze', "run that version's exact bytes, endpoints included")
      .addOption(storeFlag())
      .addOption(jsonFlag()),
    ['headgate rollback 12 --reason "checkout answers 500 since 13"', 'headgate rollback 12 --freeze --reason "stop everything"'],
  ).action(async (version, flags) => (await import('./commands/rollback.ts')).rollback(version, flags));

  examples(
    program
      .command('resume')
      .description("end a rollback: run the cluster's own configuration again")
      .addOption(new Option('--reason <text>', 'why; kept in the history').argParser(parseReason).default('resume'))
      .addOption(storeFlag())
      .addOption(jsonFlag()),
    ['headgate resume --reason "fixed"'],
  ).action(async (flags) => (await import('./commands/rollback.ts')).resume(flags));

  examples(
    program.command('status').description('what the head is, and what every node runs').addOption(storeFlag()).addOption(jsonFlag()),
    ['headgate status', 'headgate status --json'],
  ).action(async (flags) => (await import('./commands/status.ts')).status(flags));
}
